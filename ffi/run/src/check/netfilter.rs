// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finding about firewall rules: packets over AF_XDP pass them by.
//!
//! In: the rules that **nft** or **iptables-save** lists, the tier of the interface. Out: a
//! finding, and the number of rules for the interface. Called by `nic`. Bound: two programs.

use super::bounded::{ProgramAnswer, answer};
use super::finding::Finding;
use crate::offers::Offer;

/// The place in the manual about packets that the kernel does not see.
const SECTION: &str = "fi_xdp(7), LIMITATIONS";
/// Words of **nft** before the name of an interface.
const NFT_INTERFACE: [&str; 6] = ["iif", "oif", "iifname", "oifname", "sdifname", "ibrname"];
/// Options of **iptables** before the name of an interface.
const IPTABLES_INTERFACE: [&str; 4] = ["-i", "-o", "--in-interface", "--out-interface"];

/// The finding about the interface of `offer`.
pub(super) fn finding(offer: &Offer) -> Finding {
    let nft = answer("nft", &["--stateless", "list", "ruleset"]);
    // The rules of iptables-nft are in the list of nft already.
    let iptables = match nft {
        ProgramAnswer::Missing => answer("iptables-save", &[]),
        ProgramAnswer::Text(_) | ProgramAnswer::Failed => answer("iptables-legacy-save", &[]),
    };
    verdict(&offer.domain, offer.value("tier") == Some("af_xdp"), &nft, &iptables)
}

fn verdict(name: &str, has_af_xdp: bool, nft: &ProgramAnswer, iptables: &ProgramAnswer) -> Finding {
    let finding = |value: String| Finding::good(name, "firewall", value);
    let count = nft.text().map_or(0, |text| nft_rules(text, name))
        + iptables.text().map_or(0, |text| iptables_rules(text, name));
    let is_hidden = [nft, iptables].contains(&&ProgramAnswer::Failed);
    let rules = if count == 1 { "1 rule".to_owned() } else { format!("{count} rules") };
    match (count, has_af_xdp) {
        (0, true) if is_hidden => finding("unknown: root alone may read the rules".to_owned())
            .warning(format!("sudo xdp-run --check --nic {name}")),
        (0, _) if is_hidden => finding("unknown, for kernel UDP, which this is".to_owned()),
        (0, _) => finding("no rules".to_owned()),
        (_, true) => finding(format!("{rules}, not for packets over AF_XDP ({SECTION})"))
            .warning("export FI_XDP_TIER=udp"),
        (_, false) => finding(format!("{rules}: for kernel UDP, which this is")),
    }
}

/// The rules in a list of **nft**(8) that packets on interface `name` may meet. A policy that
/// drops is a rule.
fn nft_rules(list: &str, name: &str) -> usize {
    let (mut count, mut depth) = (0, 0_usize);
    // The depth of the braces around the rules of a chain.
    let mut chain = None;
    for line in list.lines().map(str::trim) {
        if line.starts_with("chain ") && line.ends_with('{') {
            chain = Some(depth + 1);
        } else if chain == Some(depth) && !line.is_empty() && line != "}" {
            let is_head = line.starts_with("type ") || line.starts_with("comment ");
            let drops = is_head && line.contains("policy drop");
            count += usize::from(drops || !is_head && is_for(line, name, &NFT_INTERFACE));
        }
        let (opened, closed) = (line.matches('{').count(), line.matches('}').count());
        depth = (depth + opened).saturating_sub(closed);
        chain = chain.filter(|chain| *chain <= depth);
    }
    count
}

/// The rules of that kind in the output of **iptables-save**(8).
fn iptables_rules(saved: &str, name: &str) -> usize {
    let is_rule = |line: &&str| {
        line.starts_with("-A ") && is_for(line, name, &IPTABLES_INTERFACE)
            || line.starts_with(':') && line.split_whitespace().nth(1) == Some("DROP")
    };
    saved.lines().filter(is_rule).count()
}

/// Whether a rule names interface `name`, or none. One that excludes interfaces may be for any.
fn is_for(rule: &str, name: &str, before: &[&str]) -> bool {
    if rule.contains("!=") || rule.contains("! -") {
        return true;
    }
    let mut words = rule.split([' ', ',', '{', '}', '"']).filter(|word| !word.is_empty());
    let has_interface = words.any(|word| before.contains(&word));
    !has_interface || words.any(|word| matches(word, name))
}

/// Whether `pattern` is the name, or its beginning with a sign for any end.
fn matches(pattern: &str, name: &str) -> bool {
    let start = pattern.strip_suffix(['*', '+']);
    pattern == name || start.is_some_and(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NFT: &str = r#"table inet filter {
	set allowed {
		type ipv4_addr
		elements = { 10.0.0.1,
			     10.0.0.2 }
	}

	chain input {
		type filter hook input priority filter; policy drop;
		comment "of the host"
		iifname "lo" accept
		iifname { "eth1", "wlan*" } tcp dport { 22, 80 } accept
		iif "eth0" udp dport 7471 drop
		ct state vmap { established : accept, related : accept, invalid : drop }
		iifname != "eth0" drop
	}

	chain forward {
		type filter hook forward priority filter; policy accept;
	}
}
"#;

    const IPTABLES: &str = "*filter
:INPUT DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -i eth+ -p udp -m udp --dport 7471 -j DROP
-A INPUT ! -i eth0 -j DROP
-A INPUT -p icmp -j ACCEPT
COMMIT
";

    fn text(text: &str) -> ProgramAnswer {
        ProgramAnswer::Text(text.to_owned())
    }

    #[test]
    fn rules_of_an_interface_are_counted() {
        assert_eq!(nft_rules(NFT, "eth0"), 4, "the policy, and three rules");
        assert_eq!(nft_rules(NFT, "wlan7"), 4, "policy, wlan*, ct, !=");
        assert_eq!(iptables_rules(IPTABLES, "eth0"), 4);
        assert_eq!(iptables_rules(IPTABLES, "wlan0"), 3);
        for nonsense in ["", "}}}}", "chain x {", "chain x {\n}\n{", "-A", ": DROP"] {
            assert!(nft_rules(nonsense, "eth0") + iptables_rules(nonsense, "eth0") <= 1);
        }
    }

    #[test]
    fn rules_do_not_hold_over_af_xdp() {
        let found = verdict("eth0", true, &text(NFT), &ProgramAnswer::Missing);
        let value = "4 rules, not for packets over AF_XDP (fi_xdp(7), LIMITATIONS)";
        assert_eq!((found.value.as_str(), found.remedy()), (value, Some("export FI_XDP_TIER=udp")));
        let found = verdict("eth0", true, &ProgramAnswer::Missing, &text(IPTABLES));
        assert!(found.remedy().is_some() && found.value.starts_with("4 rules"), "{found:?}");
        let found = verdict("eth0", false, &text(NFT), &text(IPTABLES));
        assert_eq!(found.value, "8 rules: for kernel UDP, which this is");
        assert_eq!(found.remedy(), None);
    }

    #[test]
    fn no_rules_differ_from_rules_that_nobody_may_read() {
        let found = verdict("eth0", true, &text(""), &ProgramAnswer::Missing);
        assert_eq!((found.value.as_str(), found.remedy()), ("no rules", None));
        let found = verdict("eth0", true, &ProgramAnswer::Failed, &ProgramAnswer::Missing);
        assert_eq!(found.remedy(), Some("sudo xdp-run --check --nic eth0"));
        assert_eq!(
            verdict("eth0", false, &ProgramAnswer::Failed, &ProgramAnswer::Missing).remedy(),
            None
        );
    }
}
