// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the profiles share: properties that applications compare, hints, and steps of transfers.
//!
//! In: hints and [`Rule`]s. Out: the offer that the application takes. Each rule can fail:
//! [`Profile::choose`] shows it on a copy of the offer without the property. Called by the
//! profiles. Bound: the list of offers.

use anyhow::{Context as _, Result, bail, ensure};

use crate::abi;
use crate::fi::{Context, Fid as _, Info, Mem, getinfo};
use crate::group::{Exposed, Group, Node};
use crate::world::{World, not_offered};

/// A property that an application compares.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    /// The property, for people.
    pub(super) what: &'static str,
    /// Whether an offer has it.
    pub(super) holds: fn(&World, &Info) -> bool,
    /// Takes it away.
    pub(super) spoil: fn(&Info),
}

/// What an application asks of `fi_getinfo`, and what it compares.
pub(super) struct Profile<'a> {
    /// The interface version that it is written for. The running libfabric may be older.
    pub(super) version: u32,
    pub(super) node: Option<&'a str>,
    pub(super) flags: u64,
    pub(super) rules: &'a [Rule],
}

impl Profile<'_> {
    /// The offers for `hints`, in libfabric's order.
    pub(super) fn offers(&self, hints: Option<&Info>) -> Result<Vec<Info>> {
        let version = self.version.min(abi::version());
        match getinfo(version, self.node, None, self.flags, hints) {
            Ok(offers) => Ok(offers),
            Err(error) if error.0 == abi::FI_ENODATA => not_offered("no offer for these hints"),
            Err(error) => Err(error).context("fi_getinfo"),
        }
    }

    /// The first offer of all that the application takes: one with every property.
    pub(super) fn choose(&self, world: &World, hints: Option<&Info>) -> Result<Info> {
        let offers = self.offers(hints)?;
        let mut missing = "";
        for offer in offers {
            match self.missing(world, &offer) {
                None => return self.checked(world, offer),
                Some(rule) => missing = rule,
            }
        }
        bail!("no offer has every property; the last one has not: {missing}")
    }

    /// The first property that an offer does not have.
    pub(super) fn missing(&self, world: &World, offer: &Info) -> Option<&'static str> {
        self.rules.iter().find(|rule| !(rule.holds)(world, offer)).map(|rule| rule.what)
    }

    /// The offer, after a check that each property is compared.
    pub(super) fn checked(&self, world: &World, offer: Info) -> Result<Info> {
        for rule in self.rules {
            let spoilt = offer.dup();
            (rule.spoil)(&spoilt);
            let found = self.missing(world, &spoilt);
            ensure!(found == Some(rule.what), "{} is not compared: {found:?}", rule.what);
        }
        Ok(offer)
    }
}

/// The name under test, or a utility provider over it (`tcp;ofi_rxm`).
pub(super) const NAMED_OR_LAYERED: Rule = Rule {
    what: "the provider's name",
    holds: |world, offer| {
        let name = offer.provider_name();
        name == world.provider || name.starts_with(&format!("{};", world.provider))
    },
    spoil: |offer| offer.set_provider_name("udp"),
};

/// The name under test.
pub(super) const NAMED: Rule = Rule {
    what: "the provider's own name",
    holds: |world, offer| offer.provider_name() == world.provider,
    spoil: |offer| offer.set_provider_name("udp;ofi_rxd"),
};

/// No mode is required of an application that supports none.
pub(super) const NO_MODE: Rule = Rule {
    what: "no mode",
    holds: |_, offer| offer.entry().mode == 0,
    spoil: |offer| offer.set(|info| info.mode = abi::FI_CONTEXT),
};

/// No registration of local buffers.
pub(super) const NO_LOCAL_REGISTRATION: Rule = Rule {
    what: "no FI_MR_LOCAL",
    holds: |_, offer| offer.domain().mr_mode & abi::FI_MR_LOCAL == 0,
    spoil: |offer| offer.set_domain(|domain| domain.mr_mode |= abi::FI_MR_LOCAL),
};

/// Messages in their order.
pub(super) const SENDS_IN_ORDER: Rule = Rule {
    what: "FI_ORDER_SAS",
    holds: |_, offer| offer.tx().msg_order & offer.rx().msg_order & abi::FI_ORDER_SAS != 0,
    spoil: |offer| offer.set_rx(|rx| rx.msg_order = 0),
};

/// Remote CQ data of four bytes.
pub(super) const DATA_OF_FOUR_BYTES: Rule = Rule {
    what: "cq_data_size of 4 bytes",
    holds: |_, offer| offer.domain().cq_data_size >= 4,
    spoil: |offer| offer.set_domain(|domain| domain.cq_data_size = 0),
};

/// Hints of a reliable datagram endpoint with these capabilities and modes.
pub(super) fn datagram_hints(caps: u64, mode: u64, mr_mode: i32) -> Info {
    let hints = Info::empty();
    hints.set(|info| (info.caps, info.mode) = (caps, mode));
    hints.set_ep(|ep| ep.type_ = abi::FI_EP_RDM);
    hints.set_domain(|domain| domain.mr_mode = mr_mode);
    hints
}

/// Registers memory by `fi_mr_regattr` with the key that the application wants.
pub(super) fn register(
    node: &Node,
    info: &Info,
    mem: Mem,
    access: u64,
    key: u64,
) -> Result<Exposed> {
    let mr = node.domain.mr_attr(&[mem], access, key, |_| ()).context("fi_mr_regattr")?;
    ensure!(mr.key() != abi::FI_KEY_NOTAVAIL, "FI_KEY_NOTAVAIL");
    node.exposed(info, mem, mr)
}

/// Closes the regions, then the group.
pub(super) fn close(group: &Group, regions: &[&Exposed]) -> Result<()> {
    regions.iter().try_for_each(|region| region.mr.close()).context("fi_close of a region")?;
    group.close()
}

/// Checks the bytes of `mem`.
pub(super) fn same(mem: Mem, wanted: Mem, what: &str) -> Result<()> {
    ensure!(mem.bytes() == wanted.bytes(), "{what}: other bytes than were sent");
    Ok(())
}

/// A tagged message from the first node to the second, with remote CQ data.
pub(super) fn tagged(group: &Group, mem: Mem, tag: u64) -> Result<Context> {
    let context = Context::new();
    group.post(|| group.a().ep.tsenddata(mem, 0x5a, group.to_b(), tag, context))?;
    Ok(context)
}
