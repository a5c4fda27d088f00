// SPDX-License-Identifier: MIT OR Apache-2.0
// Shared by the mock provider (mock.c) and its application (passthrough.c): tables that are longer
// than those of any libfabric, as in a future release.

#ifndef MOCK_H
#define MOCK_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

struct mock_fabric_ops {
	struct fi_ops_fabric known;
	void *to_come[7];
	int (*answer)(void);
};

struct mock_domain_ops {
	struct fi_ops_domain known;
	void *to_come[7];
	const struct fi_ops_rma *(*rma_table)(struct fid_domain *domain);
};

#define MOCK_ANSWER 42

#endif
