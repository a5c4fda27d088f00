// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn registered() -> Vec<String> {
    ["verbs", "tcp", "ofi_rxm", "xdp", "sockets"].map(str::to_owned).to_vec()
}

fn queries_for(list: &str, filter: Option<&str>, names: Names<'_>) -> ProviderQueries {
    let providers = Providers::parse(list);
    queries(Choice::Auto, &providers, &Filter::parse(filter), &registered(), names)
}

fn queried(found: &ProviderQueries) -> Vec<&str> {
    found.queries.iter().map(|query| query.provider.as_str()).collect()
}

#[test]
fn providers_missing_in_libfabric_are_not_queried() {
    let found = queries_for("efa verbs cxi tcp;ofi_rxm tcp;lnx", None, Names::default());
    assert_eq!(queried(&found), ["verbs", "tcp;ofi_rxm"]);
    assert_eq!(found.skipped, ["efa, cxi, tcp;lnx: not in this libfabric"]);
}

#[test]
fn other_tiers_query_no_provider() {
    for choice in [Choice::AfXdp, Choice::Udp] {
        let found = queries(
            choice,
            &Providers::parse("tcp"),
            &Filter::default(),
            &registered(),
            Names::default(),
        );
        assert_eq!(queried(&found), [""; 0]);
        assert_eq!(found.skipped, [format!("FI_XDP_TIER={choice}")]);
    }
    let found = queries_for("none", None, Names::default());
    assert_eq!(found.skipped, ["FI_XDP_PASSTHROUGH=none"]);
}

#[test]
fn a_filter_that_shows_hides_and_one_that_excludes_forbids() {
    let filter = Filter::parse(Some("xdp"));
    assert!(filter.hides("tcp") && !filter.hides("xdp") && !filter.excludes("tcp"));
    assert_eq!(filter.stranded("tcp;ofi_rxm"), Some("ofi_rxm"));
    assert_eq!((filter.stranded("tcp"), filter.stranded("xdp;ofi_rxm")), (None, None));
    for filter in [None, Some(""), Some("^xdp"), Some("xdp,TCP"), Some("xdp,tcp;ofi_rxm")] {
        let filter = Filter::parse(filter);
        assert!(!filter.hides("tcp") && filter.stranded("tcp;ofi_rxm").is_none(), "{filter:?}");
    }
    let found = queries_for("tcp verbs tcp;ofi_rxm", Some("^tcp,sockets"), Names::default());
    assert_eq!(queried(&found), ["verbs"]);
    assert_eq!(found.skipped.len(), 2);
    let found = queries_for("tcp;ofi_rxm tcp", Some("xdp"), Names::default());
    assert_eq!(queried(&found), ["tcp"]);
    assert_eq!(found.skipped.len(), 1);
    let filter = Filter::parse(Some("^tcp;ofi_rxm,  Shm"));
    assert!(filter.excludes("tcp;ofi_rxm") && filter.excludes("shm"));
    assert!(!filter.excludes("tcp") && !filter.hides("tcp"));
}

#[test]
fn hints_that_name_a_domain_reach_its_provider_only() {
    let names = Names { domain: Some("Verbs:mlx5_0"), ..Names::default() };
    let found = queries_for("tcp verbs", None, names);
    assert_eq!(queried(&found), ["verbs"]);
    assert_eq!(found.queries[0].domain.as_deref(), Some("mlx5_0"));
    assert_eq!(found.queries[0].fabric, None);
    let names = Names { domain: Some("eth0"), ..Names::default() };
    assert_eq!(queried(&queries_for("tcp verbs", None, names)), [""; 0]);
    let names = Names { domain: Some("tcp:eth0"), fabric: Some("verbs:x"), ..Names::default() };
    assert_eq!(queried(&queries_for("tcp verbs", None, names)), [""; 0]);
}

#[test]
fn excluded_layers_are_passed_on() {
    let names = Names { provider: Some("xdp;^ofi_mrail;^ofi_rxd"), ..Names::default() };
    assert_eq!(queried(&queries_for("verbs", None, names)), ["verbs;^ofi_mrail;^ofi_rxd"]);
}

#[test]
fn layers_over_a_hidden_provider_are_opened_over_this_one() {
    let hidden = Filter::parse(Some("xdp"));
    let route = ProviderRoute::to("verbs;ofi_rxm", &hidden);
    assert_eq!(
        (route.provider.as_str(), route.own("mlx:0")),
        ("xdp;ofi_rxm", "verbs:mlx:0".into())
    );
    assert_eq!(ProviderRoute::shown(&route.provider, &route.own("mlx:0")), "verbs;ofi_rxm:mlx:0");
    for (provider, filter) in
        [("verbs", Some("xdp")), ("verbs;ofi_rxm", None), ("verbs;ofi_rxm", Some("xdp,verbs"))]
    {
        let route = ProviderRoute::to(provider, &Filter::parse(filter));
        assert_eq!((route.provider.as_str(), route.own("mlx:0")), (provider, "mlx:0".into()));
        assert_eq!(ProviderRoute::shown(provider, "mlx:0"), format!("{provider}:mlx:0"));
    }
    let names = Names {
        domain: Some("verbs;ofi_rxm:mlx"),
        provider: Some("xdp;^ofi_mrail"),
        ..Names::default()
    };
    let query = queries_for("verbs", Some("xdp"), names).queries[0].rerouted("ofi_rxm");
    assert_eq!(query.provider, "xdp;ofi_rxm;^ofi_mrail");
    assert_eq!((query.domain.as_deref(), query.fabric), (Some("verbs:mlx"), None));
}
