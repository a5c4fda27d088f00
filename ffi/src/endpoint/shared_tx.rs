// SPDX-License-Identifier: MIT OR Apache-2.0
//! A shared transmit context (`fi_stx_context`, `fi_endpoint(3)`, "Shared contexts").
//!
//! In: attributes. Out: whether an endpoint's attributes fit them. Called by `endpoint::bind`.
//! Bound: constant.
//!
//! Endpoints share no transmit resources here: operations are posted to the endpoints. The context
//! holds the attributes that its endpoints must keep to, and is busy while an endpoint is bound.

use std::sync::Arc;

use crate::getinfo::Info;
use crate::getinfo::hints;
use crate::objects::domain::Domain;
use crate::objects::object_ops::ObjectOps;
use crate::sys::abi;
use crate::sys::errno::Error;
use crate::sys::personality;

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedTx {
    domain: Arc<Domain>,
    attributes: Option<abi::fi_tx_attr>,
}

impl SharedTx {
    /// `fi_stx_context`; without attributes, for any endpoint.
    ///
    /// # Errors
    /// [`Error::Invalid`] for attributes that are not offered.
    pub(crate) fn open(
        domain: &Arc<Domain>,
        attributes: Option<&abi::fi_tx_attr>,
    ) -> Result<Arc<Self>, Error> {
        if let Some(wanted) = attributes {
            check(domain, wanted).map_err(|attribute| {
                log::warn!(target: "ep_ctrl", "{attribute} is not what was offered");
                Error::Invalid
            })?;
        }
        Ok(Arc::new(Self { domain: Arc::clone(domain), attributes: attributes.copied() }))
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Whether an endpoint's attributes are a subset of the context's (`fi_endpoint(3)`). Zero
    /// means any, on either side.
    pub(crate) const fn admits(&self, endpoint: &abi::fi_tx_attr) -> bool {
        const fn within(wanted: u64, given: u64) -> bool {
            given == 0 || wanted & !given == 0
        }
        const fn fits(wanted: usize, given: usize) -> bool {
            given == 0 || wanted <= given
        }
        let Some(own) = &self.attributes else { return true };
        within(endpoint.caps, own.caps)
            && within(endpoint.msg_order, own.msg_order)
            && fits(endpoint.inject_size, own.inject_size)
            && fits(endpoint.size, own.size)
            && fits(endpoint.iov_limit, own.iov_limit)
            && fits(endpoint.rma_iov_limit, own.rma_iov_limit)
    }
}

/// Checks attributes against the offers of all types of endpoints: they do not tell the type.
fn check(domain: &Domain, wanted: &abi::fi_tx_attr) -> Result<(), &'static str> {
    let mut checked = Ok(());
    for &ep_type in personality::current().ep_types() {
        let offer = Info::offer_of(ep_type, domain.interface(), wanted.caps);
        checked = hints::check_tx(wanted, offer.caps, &offer.tx);
        if checked.is_ok() {
            break;
        }
    }
    checked
}

impl ObjectOps for SharedTx {}
