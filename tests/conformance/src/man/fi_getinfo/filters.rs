// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hints that name a provider, a domain or a fabric.

use anyhow::{Result, ensure};

use crate::abi;
use crate::fi::{Context, Fabric, Info, getinfo};
use crate::world::{Setup, World, refused};

/// Section DESCRIPTION, `FI_PROV_ATTR_ONLY`: names and versions of providers without looking for
/// devices.
pub(super) fn provider_attributes_only(world: &World) -> Result<()> {
    let offers = getinfo(abi::VERSION, None, None, abi::FI_PROV_ATTR_ONLY, None)?;
    let name = world.provider.split(';').next().unwrap_or_default();
    let ours = offers.iter().find(|info| info.provider_name() == name);
    ensure!(ours.is_some_and(|info| info.fabric().prov_version != 0), "{name} is not among them");
    Ok(())
}

/// `fi_fabric(3)`, `prov_name`: only offers of this provider, alone or in a stack.
pub(super) fn the_providers_name_filters(world: &World) -> Result<()> {
    for info in world.offers(abi::VERSION, &world.bare_hints())? {
        let name = info.provider_name();
        ensure!(name.starts_with(&world.provider), "an offer of {name}");
    }
    let hints = Info::empty();
    hints.set_provider_name("nobody");
    let answer = getinfo(abi::VERSION, None, None, 0, Some(&hints)).map(|offers| offers.len());
    refused(answer, &[abi::FI_ENODATA], "an unknown provider")
}

/// `fi_domain(3)`, name: only offers with that domain.
pub(super) fn the_domains_name_filters(world: &World) -> Result<()> {
    let offer = world.offer(&Setup::default())?;
    let hints = world.hints(&Setup::default());
    hints.set_domain_name(&offer.domain_name());
    for info in world.offers(abi::VERSION, &hints)? {
        ensure!(info.domain_name() == offer.domain_name(), "domain {}", info.domain_name());
    }
    hints.set_domain_name("no-such-domain");
    let answer = world.offers(abi::VERSION, &hints).map(|offers| offers.len());
    refused(answer, &[abi::FI_ENODATA], "an unknown domain")
}

/// `fi_fabric(3)`, name: only offers with that fabric.
pub(super) fn the_fabrics_name_filters(world: &World) -> Result<()> {
    let offer = world.offer(&Setup::default())?;
    let hints = world.hints(&Setup::default());
    hints.set_fabric_name(&offer.fabric_name());
    for info in world.offers(abi::VERSION, &hints)? {
        ensure!(info.fabric_name() == offer.fabric_name(), "fabric {}", info.fabric_name());
    }
    hints.set_fabric_name("no-such-fabric");
    let answer = world.offers(abi::VERSION, &hints).map(|offers| offers.len());
    refused(answer, &[abi::FI_ENODATA], "an unknown fabric")
}

/// `fi_domain(3)`, domain: with an open domain in the hints, offers are for it.
pub(super) fn an_open_domain_filters(world: &World) -> Result<()> {
    let offer = world.offer(&Setup::default())?;
    let fabric = Fabric::open(&offer, Context::null())?;
    let domain = fabric.domain(&offer, Context::null())?;
    let hints = world.hints(&Setup::default());
    let raw = crate::fi::Fid::fid(&domain).cast::<abi::fid_domain>();
    hints.set_domain(|attr| attr.domain = raw);
    match world.offers(abi::VERSION, &hints) {
        Ok(offers) => {
            // A domain belongs to its provider: a domain of another provider with the same name is
            // another domain.
            let whose = |info: &Info| (info.provider_name(), info.domain_name());
            let same = |info: &Info| whose(info) == whose(&offer);
            ensure!(offers.iter().all(same), "an offer for another domain");
        }
        Err(errno) => ensure!(errno.0 == abi::FI_ENODATA, "{errno}"),
    }
    hints.set_domain(|attr| attr.domain = std::ptr::null_mut());
    crate::fi::Fid::close(&domain)?;
    Ok(crate::fi::Fid::close(&fabric)?)
}
