// SPDX-License-Identifier: MIT OR Apache-2.0
// Mistakes with deferred work and triggered operations: each gets an error, none a crash.

#include "common.h"

#include <rdma/fi_trigger.h>

static struct pair pair;
static struct fid_cntr *cntr, *ends;
static char byte;
static struct iovec iov = {&byte, 1};

static int queue(struct fi_deferred_work *work)
{
	return fi_control(&pair.domain->fid, FI_QUEUE_WORK, work);
}

static void null_arguments(void)
{
	struct fi_op_cntr op = {.cntr = ends, .value = 1};
	struct fi_deferred_work work = {
		.triggering_cntr = cntr, .op_type = FI_OP_CNTR_ADD, .op.cntr = &op};
	EXPECT(FI_EINVAL, queue(NULL));
	EXPECT(FI_EINVAL, fi_control(&pair.domain->fid, FI_CANCEL_WORK, NULL));
	EXPECT(0, fi_control(&pair.domain->fid, FI_FLUSH_WORK, NULL));
	EXPECT(FI_ENOENT, fi_control(&pair.domain->fid, FI_CANCEL_WORK, &work));
	work.triggering_cntr = NULL;
	EXPECT(FI_EINVAL, queue(&work));
	work.triggering_cntr = cntr;
	work.op.cntr = NULL;
	EXPECT(FI_EINVAL, queue(&work));
	op.cntr = NULL;
	work.op.cntr = &op;
	EXPECT(FI_EINVAL, queue(&work));
	op.cntr = ends;
	work.completion_cntr = ends;
	EXPECT(FI_EINVAL, queue(&work));
	work.completion_cntr = NULL;
	work.op_type = 4711;
	EXPECT(FI_ENOSYS, queue(&work));
}

static void wrong_class(void)
{
	struct fi_op_msg op = {.ep = (struct fid_ep *)pair.cq[0],
			       .msg = {.msg_iov = &iov, .iov_count = 1, .addr = pair.addr[1]}};
	struct fi_deferred_work work = {
		.triggering_cntr = cntr, .op_type = FI_OP_SEND, .op.msg = &op};
	struct fid_domain *domain;
	struct fid_cntr *foreign;
	struct fid_ep *ep, *srx;
	EXPECT(FI_EINVAL, queue(&work));
	op.ep = NULL;
	EXPECT(FI_EINVAL, queue(&work));
	op.ep = pair.ep[0];
	work.triggering_cntr = (struct fid_cntr *)pair.ep[0];
	EXPECT(FI_EINVAL, queue(&work));
	work.triggering_cntr = cntr;
	work.completion_cntr = (struct fid_cntr *)pair.av;
	EXPECT(FI_EINVAL, queue(&work));
	work.completion_cntr = NULL;
	op.msg.iov_count = 5;
	EXPECT(FI_EINVAL, queue(&work));
	op.msg.iov_count = 1;
	// Only a domain has a queue.
	EXPECT(FI_EINVAL, fi_control(&pair.ep[0]->fid, FI_QUEUE_WORK, &work));
	EXPECT(FI_EINVAL, fi_control(&pair.cq[0]->fid, FI_FLUSH_WORK, NULL));
	// Objects of another domain.
	MUST(fi_domain(pair.fabric, pair.info, &domain, NULL));
	MUST(fi_cntr_open(domain, NULL, &foreign, NULL));
	work.triggering_cntr = foreign;
	EXPECT(FI_EINVAL, queue(&work));
	EXPECT(FI_EINVAL, fi_control(&domain->fid, FI_QUEUE_WORK, &work));
	EXPECT(0, fi_close(&foreign->fid));
	EXPECT(0, fi_close(&domain->fid));
	// An endpoint that is not enabled, and a receive context.
	work.triggering_cntr = cntr;
	MUST(fi_endpoint(pair.domain, pair.info, &ep, NULL));
	op.ep = ep;
	EXPECT(FI_EOPBADSTATE, queue(&work));
	MUST(fi_srx_context(pair.domain, NULL, &srx, NULL));
	op.ep = srx;
	EXPECT(FI_EINVAL, queue(&work));
	EXPECT(0, fi_close(&srx->fid));
	EXPECT(0, fi_close(&ep->fid));
}

static void bad_triggers(void)
{
	struct fi_triggered_context2 context = {.event_type = FI_TRIGGER_XPU};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = pair.addr[1]};
	EXPECT(FI_EINVAL, fi_sendmsg(pair.ep[0], NULL, FI_TRIGGER));
	EXPECT(FI_EINVAL, fi_sendmsg(pair.ep[0], &msg, FI_TRIGGER));
	msg.context = &context;
	EXPECT(FI_ENOSYS, fi_sendmsg(pair.ep[0], &msg, FI_TRIGGER));
	context.event_type = FI_TRIGGER_THRESHOLD;
	EXPECT(FI_EINVAL, fi_sendmsg(pair.ep[0], &msg, FI_TRIGGER));
	context.trigger.threshold.cntr = (struct fid_cntr *)pair.cq[0];
	EXPECT(FI_EINVAL, fi_recvmsg(pair.ep[0], &msg, FI_TRIGGER));
}

// The queue has a bound; work that cannot start is an error in the completion counter.
static void bounds(void)
{
	static struct fi_deferred_work works[5000];
	struct fi_op_cntr op = {.cntr = ends, .value = 1};
	struct fi_op_msg bad = {.ep = pair.ep[0],
				.msg = {.msg_iov = &iov, .iov_count = 1, .addr = 4711}};
	struct fi_deferred_work work = {.triggering_cntr = cntr,
					.completion_cntr = ends,
					.op_type = FI_OP_SEND,
					.op.msg = &bad};
	int queued = 0, status = 0;
	while (queued < 5000) {
		works[queued] = (struct fi_deferred_work){.triggering_cntr = cntr,
							  .threshold = 1,
							  .op_type = FI_OP_CNTR_ADD,
							  .op.cntr = &op};
		status = queue(&works[queued]);
		if (status)
			break;
		queued++;
	}
	CHECK(status == -FI_EAGAIN && queued > 1000);
	EXPECT(FI_EBUSY, fi_close(&cntr->fid));
	EXPECT(FI_EBUSY, fi_close(&ends->fid));
	EXPECT(FI_EBUSY, fi_close(&pair.domain->fid));
	EXPECT(0, fi_control(&pair.domain->fid, FI_CANCEL_WORK, &works[7]));
	MUST(fi_cntr_add(cntr, 1));
	CHECK(fi_cntr_read(ends) == (uint64_t)queued - 1);
	EXPECT(0, queue(&work));
	CHECK(fi_cntr_readerr(ends) == 1);
}

int main(void)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
	struct fi_info *hints = hints_for_us();
	pair_open(&pair, info_on("127.0.0.1", hints), &cq_attr, 0);
	fi_freeinfo(hints);
	MUST(fi_cntr_open(pair.domain, NULL, &cntr, NULL));
	MUST(fi_cntr_open(pair.domain, NULL, &ends, NULL));
	null_arguments();
	wrong_class();
	bad_triggers();
	bounds();
	EXPECT(0, fi_close(&cntr->fid));
	EXPECT(0, fi_close(&ends->fid));
	pair_close(&pair);
	return test_status("work");
}
