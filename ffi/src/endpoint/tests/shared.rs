// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shared contexts: their attributes, and the address vector of the endpoints that share receives.

use super::*;
use crate::endpoint::shared_tx::SharedTx;
use crate::getinfo;
use crate::getinfo::Lookup;

fn sharing(domain: &Arc<Domain>, caps: u64, vector: &Arc<Av>, rx: &Arc<SharedRx>) -> Arc<Endpoint> {
    let request = InfoRequest { source: Some(any_port()), caps, ..InfoRequest::default() };
    let endpoint = bound(domain, &request, vector);
    endpoint.bind(&BindTarget::new(rx), 0).unwrap();
    endpoint
}

/// A receive that names this source.
fn receive_from(shared: &SharedRx, from: u64) -> Result<(), Error> {
    let (context, flags) = (Context::default(), OpFlags::Default);
    let recv = Recv { buffer: Buffer::EMPTY, from, tag: None, context, flags };
    shared.receive(&recv).map(drop)
}

#[test]
fn the_attributes_of_every_offer_open_a_shared_transmit_context() {
    let domain = domain();
    let node = Some("127.0.0.1".into());
    let flags = bits::SOURCE | bits::NUMERICHOST;
    let lookup = Lookup { node, flags, ..Lookup::default() };
    let offers = getinfo::find(&lookup, None, "").unwrap();
    assert!(offers.iter().any(|offer| offer.tx.caps & bits::MULTICAST != 0));
    for offer in offers {
        assert!(SharedTx::open(&domain, Some(&offer.tx)).is_ok(), "{:?}", offer.tx);
    }
    let unknown = abi::fi_tx_attr { caps: bits::HMEM, ..Info::offer(domain.interface()).tx };
    assert_eq!(SharedTx::open(&domain, Some(&unknown)).err(), Some(Error::Invalid));
}

#[test]
fn a_vector_comes_with_the_endpoint_that_joins() {
    let domain = domain();
    let shared = SharedRx::open(&domain, None).unwrap();
    let vectors = [vector(&domain), vector(&domain)];
    let [first, second] = vectors.each_ref().map(|vector| {
        vector.table().insert(any_port()).unwrap();
        sharing(&domain, 0, vector, &shared)
    });
    first.enable().unwrap();
    assert_eq!(second.enable(), Err(Error::Invalid), "another vector");
    // While the second endpoint is enabled, the first one closes: its vector is checked, and gone.
    let (table, policy) = (vectors[0].table(), CompletionPolicy::All);
    shared.source(Some(table), policy).unwrap();
    let runtime = Arc::clone(&first.enabled().unwrap().runtime);
    shared.leave(&runtime);
    shared.join(&runtime, policy, true, Some(table)).unwrap();
    receive_from(&shared, 0).unwrap();
    assert_eq!(receive_from(&shared, 1), Err(Error::Invalid));
    let other = shared.join(&runtime, policy, true, Some(vectors[1].table()));
    assert_eq!(other, Err(Error::Invalid));
    first.close().unwrap();
    second.enable().unwrap();
    second.close().unwrap();
}

#[test]
fn a_failed_enable_leaves_a_shared_context_without_a_vector() {
    let domain = domain();
    let shared = SharedRx::open(&domain, None).unwrap();
    let vectors = [vector(&domain), vector(&domain)];
    let [failing, other] = vectors.each_ref().map(|vector| sharing(&domain, 0, vector, &shared));
    failing.bindings().port = None;
    let _taken = std::net::UdpSocket::bind(failing.local).unwrap();
    assert_eq!(failing.enable(), Err(Error::Os(libc::EADDRINUSE)));
    other.enable().unwrap();
    other.close().unwrap();
}

#[test]
fn a_shared_context_without_attributes_is_directed_where_its_endpoints_are() {
    let domain = domain();
    for (caps, unknown) in [(bits::MSG, Ok(())), (0, Err(Error::Invalid))] {
        let shared = SharedRx::open(&domain, None).unwrap();
        assert_eq!(receive_from(&shared, ADDR_NONE), Ok(()));
        assert_eq!(receive_from(&shared, 5), Err(Error::BadState), "no endpoint tells");
        let endpoint = sharing(&domain, caps, &vector(&domain), &shared);
        endpoint.enable().unwrap();
        assert_eq!(receive_from(&shared, 5), unknown);
        endpoint.close().unwrap();
    }
}
