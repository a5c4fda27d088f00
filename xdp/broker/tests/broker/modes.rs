// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mode in which the broker attaches the program. Of the interfaces here the broker expects no
//! native mode, so the tests open leases as it does for a card.

use ofi_xdp_datapath::{Lease, SocketRequest, XskMode};

use crate::common::{Hosts, skipped};
use crate::request;

#[test]
fn root_a_request_for_generic_mode_leaves_a_card_in_native_mode() {
    if skipped() {
        return;
    }
    let hosts = Hosts::new();
    let card = request(&hosts, None);
    // The loopback interface has no native mode.
    let without = SocketRequest { interface: 1, ..card };
    for (request, native_first, mode) in
        [(card, true, XskMode::Copy), (card, false, XskMode::Skb), (without, true, XskMode::Skb)]
    {
        assert_eq!(request.mode, XskMode::Skb);
        let lease = hosts.on(0, || Lease::open_for_client(request, native_first, &|_| true));
        assert_eq!(lease.unwrap().mode(), mode, "{request:?}");
        // The kernel tears the socket down.
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}
