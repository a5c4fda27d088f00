// SPDX-License-Identifier: MIT OR Apache-2.0
//! The man pages, a module each, and in each a test for every promise, in the page's order.
//!
//! A test's comment names the section and states the promise in other words. Where a page leaves a
//! choice to the provider, each form that the page allows is accepted.

mod fi_atomic;
mod fi_av;
mod fi_cm;
mod fi_cntr;
pub(crate) mod fi_cq;
mod fi_dgram;
mod fi_endpoint;
mod fi_eq;
mod fi_fabric;
mod fi_getinfo;
mod fi_join;
pub(crate) mod fi_mr;
pub(crate) mod fi_msg;
mod fi_multi_recv;
mod fi_rma;
mod fi_scalable_ep;
mod fi_srx_context;
mod fi_tagged;
mod fi_trigger;

use crate::runner::Test;

/// Every test, page by page, then the profiles of applications.
pub(crate) fn all() -> Vec<&'static Test> {
    let pages: [&'static [Test]; 22] = [
        fi_getinfo::TESTS,
        fi_fabric::TESTS,
        fi_av::TESTS,
        fi_cq::TESTS,
        fi_eq::TESTS,
        fi_endpoint::TESTS,
        fi_cm::TESTS,
        fi_dgram::TESTS,
        fi_join::TESTS,
        fi_srx_context::TESTS,
        fi_scalable_ep::TESTS,
        fi_msg::TESTS,
        fi_multi_recv::TESTS,
        fi_tagged::TESTS,
        fi_mr::TESTS,
        fi_rma::TESTS,
        fi_atomic::TESTS,
        fi_cntr::TESTS,
        fi_trigger::TESTS,
        crate::traps::TESTS,
        crate::waiting::TESTS,
        crate::wakeups::TESTS,
    ];
    pages.into_iter().flatten().chain(crate::applications::all()).collect()
}
