// SPDX-License-Identifier: MIT OR Apache-2.0
// Mistakes with shared contexts: each gets an error, none a crash.

#include "common.h"

static struct pair pair;

static void null_arguments(void)
{
	struct fid_ep *srx;
	struct fid_stx *stx;
	EXPECT(FI_EINVAL, fi_srx_context(pair.domain, pair.info->rx_attr, NULL, NULL));
	EXPECT(FI_EINVAL, fi_stx_context(pair.domain, pair.info->tx_attr, NULL, NULL));
	// Without attributes, the defaults.
	MUST(fi_srx_context(pair.domain, NULL, &srx, NULL));
	MUST(fi_stx_context(pair.domain, NULL, &stx, NULL));
	// A buffer without an address has no bytes; the receive takes an empty message.
	EXPECT(0, fi_recv(srx, NULL, 8, NULL, FI_ADDR_UNSPEC, NULL));
	EXPECT(FI_EINVAL, fi_recvv(srx, NULL, NULL, 2, FI_ADDR_UNSPEC, NULL));
	EXPECT(FI_EINVAL, fi_recvmsg(srx, NULL, 0));
	EXPECT(FI_EINVAL, fi_trecvmsg(srx, NULL, 0));
	EXPECT(FI_EINVAL, fi_control(&srx->fid, FI_GETOPSFLAG, NULL));
	EXPECT(0, fi_cancel(&srx->fid, NULL));
	EXPECT(0, fi_cancel(&srx->fid, &pair));
	EXPECT(0, fi_close(&srx->fid));
	EXPECT(0, fi_close(&stx->fid));
}

static void bad_attributes(void)
{
	struct fid_ep *srx;
	struct fid_stx *stx;
	struct fi_rx_attr rx = *pair.info->rx_attr;
	struct fi_tx_attr tx = *pair.info->tx_attr;
	rx.size = 1 << 24;
	EXPECT(FI_EINVAL, fi_srx_context(pair.domain, &rx, &srx, NULL));
	rx = *pair.info->rx_attr;
	rx.caps = FI_HMEM;
	EXPECT(FI_EINVAL, fi_srx_context(pair.domain, &rx, &srx, NULL));
	tx.inject_size = 1 << 20;
	EXPECT(FI_EINVAL, fi_stx_context(pair.domain, &tx, &stx, NULL));
	tx = *pair.info->tx_attr;
	tx.op_flags = FI_PEEK;
	EXPECT(FI_EINVAL, fi_stx_context(pair.domain, &tx, &stx, NULL));
}

static void bad_flags(struct fid_ep *srx)
{
	char byte = 0;
	size_t size = 0, room = 1;
	uint64_t flags;
	struct iovec iov = {&byte, 1};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
	struct fi_msg_tagged tagged = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
	EXPECT(FI_EBADFLAGS, fi_recvmsg(srx, &msg, FI_PEEK));
	EXPECT(FI_EBADFLAGS, fi_trecvmsg(srx, &tagged, FI_DISCARD));
	// A receive of a claimed message fails without a claim, and a peek fails.
	EXPECT(FI_EINVAL, fi_trecvmsg(srx, &tagged, FI_CLAIM));
	EXPECT(FI_EOPBADSTATE, fi_trecvmsg(srx, &tagged, FI_PEEK));
	flags = FI_TRANSMIT;
	EXPECT(FI_EINVAL, fi_control(&srx->fid, FI_GETOPSFLAG, &flags));
	flags = FI_TRANSMIT | FI_COMPLETION;
	EXPECT(FI_EINVAL, fi_control(&srx->fid, FI_SETOPSFLAG, &flags));
	flags = FI_RECV | FI_PEEK;
	EXPECT(FI_EBADFLAGS, fi_control(&srx->fid, FI_SETOPSFLAG, &flags));
	flags = FI_RECV | FI_COMPLETION;
	EXPECT(0, fi_control(&srx->fid, FI_SETOPSFLAG, &flags));
	flags = FI_RECV;
	EXPECT(0, fi_control(&srx->fid, FI_GETOPSFLAG, &flags));
	CHECK(flags == FI_COMPLETION);
	EXPECT(FI_ENOPROTOOPT, fi_setopt(&srx->fid, FI_OPT_ENDPOINT, 4711, &size, sizeof(size)));
	EXPECT(FI_ETOOSMALL,
	       fi_getopt(&srx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &byte, &room));
}

// Calls of the other kind of context, and objects of the wrong class.
static void wrong_class(struct fid_ep *srx, struct fid_stx *stx)
{
	struct fid_ep *ep, *other;
	struct fid_domain *domain;
	struct fid_ep *foreign;
	char byte = 0, name[64];
	size_t len = sizeof(name);
	EXPECT(FI_EINVAL, fi_ep_bind(srx, &pair.cq[0]->fid, FI_RECV));
	EXPECT(FI_EINVAL, fi_ep_bind(srx, &pair.av->fid, 0));
	EXPECT(FI_EINVAL, fi_ep_bind(srx, NULL, 0));
	EXPECT(FI_ENOSYS, fi_send(srx, &byte, 1, NULL, pair.addr[0], NULL));
	EXPECT(FI_ENOSYS, fi_tinject(srx, &byte, 1, pair.addr[0], 1));
	EXPECT(FI_ENOSYS, fi_write(srx, &byte, 1, NULL, pair.addr[0], 0, 0, NULL));
	EXPECT(FI_ENOSYS, fi_atomic(srx, &byte, 1, NULL, pair.addr[0], 0, 0, FI_UINT8, FI_SUM, NULL));
	EXPECT(FI_ENOSYS, fi_getname(&srx->fid, name, &len));
	EXPECT(FI_ENOSYS, fi_ep_alias(srx, &other, FI_RECV));
	EXPECT(0, fi_enable(srx));
	EXPECT(FI_EINVAL, srx->msg->recv(pair.ep[0], &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
	EXPECT(FI_EINVAL, pair.ep[0]->msg->recv(srx, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
	EXPECT(FI_EINVAL, pair.ep[0]->fid.ops->close(&stx->fid));
	EXPECT(FI_ENOSYS, fi_control(&stx->fid, FI_ENABLE, NULL));
	// Of another domain.
	MUST(fi_domain(pair.fabric, pair.info, &domain, NULL));
	MUST(fi_srx_context(domain, pair.info->rx_attr, &foreign, NULL));
	MUST(fi_endpoint(pair.domain, pair.info, &ep, NULL));
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &foreign->fid, 0));
	EXPECT(0, fi_ep_bind(ep, &stx->fid, 0));
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &stx->fid, 0));
	EXPECT(0, fi_ep_bind(ep, &srx->fid, 0));
	EXPECT(FI_EINVAL, fi_ep_bind(ep, &srx->fid, 0));
	// An endpoint that is enabled.
	EXPECT(FI_EOPBADSTATE, fi_ep_bind(pair.ep[0], &srx->fid, 0));
	EXPECT(FI_EBUSY, fi_close(&srx->fid));
	EXPECT(FI_EBUSY, fi_close(&stx->fid));
	EXPECT(FI_EBUSY, fi_close(&domain->fid));
	EXPECT(0, fi_close(&ep->fid));
	EXPECT(0, fi_close(&foreign->fid));
	EXPECT(0, fi_close(&domain->fid));
}

// A directed receive names an address, which has no meaning before there is a vector.
static void directed(void)
{
	struct fid_ep *srx;
	struct fi_rx_attr rx = *pair.info->rx_attr;
	char byte = 0;
	rx.caps |= FI_MSG | FI_RECV | FI_DIRECTED_RECV;
	MUST(fi_srx_context(pair.domain, &rx, &srx, NULL));
	EXPECT(FI_EOPBADSTATE, fi_recv(srx, &byte, 1, NULL, pair.addr[0], NULL));
	EXPECT(0, fi_recv(srx, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL));
	EXPECT(0, fi_close(&srx->fid));
}

int main(void)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_info *hints = hints_for_us();
	struct fid_ep *srx;
	struct fid_stx *stx;
	pair_open(&pair, info_on("127.0.0.1", hints), &cq_attr, 0);
	fi_freeinfo(hints);
	null_arguments();
	bad_attributes();
	MUST(fi_srx_context(pair.domain, pair.info->rx_attr, &srx, NULL));
	MUST(fi_stx_context(pair.domain, pair.info->tx_attr, &stx, NULL));
	EXPECT(FI_EBUSY, fi_close(&pair.domain->fid));
	bad_flags(srx);
	wrong_class(srx, stx);
	EXPECT(0, fi_close(&srx->fid));
	EXPECT(0, fi_close(&stx->fid));
	directed();
	pair_close(&pair);
	return test_status("contexts");
}
