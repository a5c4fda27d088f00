// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of fabtests that are not run with this provider, each with its reason. All others
//! pass.

/// The tests with `-k` end without a provider that asks for this mode.
const NO_PREFIX: &str = "no FI_MSG_PREFIX: messages need no room before them (fi_getinfo(3), Mode)";

/// Command lines without addresses and provider, and the sentence that permits each.
pub(super) const NOT_RUN: [(&str, &str); 9] = [
    (
        "fi_cq_data -e dgram -o senddata",
        "a datagram has no header of the provider, so none for remote CQ data (fi_udp(7), too)",
    ),
    ("fi_cq_data -e dgram -o writedata", "FI_EP_DGRAM has no remote memory access (fi_xdp(7))"),
    ("fi_multinode_coll", "FI_COLLECTIVE is that of libfabric, with xdp;ofi_rxm (ENTRY-POINTS.md)"),
    ("fi_msg_pingpong -k", NO_PREFIX),
    ("fi_msg_pingpong -k -v", NO_PREFIX),
    ("fi_rdm_pingpong -k", NO_PREFIX),
    ("fi_rdm_pingpong -k -U", NO_PREFIX),
    ("fi_rdm_pingpong -k -v", NO_PREFIX),
    ("fi_rdm_pingpong -k -v -U", NO_PREFIX),
];

/// The reason of a test that is not run.
pub(super) fn reason(command: &str) -> Option<&'static str> {
    NOT_RUN.iter().find(|(test, _)| *test == command).map(|(_, reason)| *reason)
}
