// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of fabtests that are not run with this provider, each with its reason. All others
//! pass.

/// Command lines without addresses and provider, and the sentence that permits each.
pub(super) const NOT_RUN: [(&str, &str); 2] = [
    (
        "fi_cq_data -e dgram -o senddata",
        "a datagram has no header of the provider, so none for remote CQ data (fi_udp(7), too)",
    ),
    ("fi_cq_data -e dgram -o writedata", "FI_EP_DGRAM has no remote memory access (fi_xdp(7))"),
];

/// The reason of a test that is not run.
pub(super) fn reason(command: &str) -> Option<&'static str> {
    NOT_RUN.iter().find(|(test, _)| *test == command).map(|(_, reason)| *reason)
}
