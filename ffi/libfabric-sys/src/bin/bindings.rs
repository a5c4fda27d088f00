// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes `ffi/libfabric-sys/src/bindings.rs` from the installed libfabric headers, or (`--check`)
//! compares the committed file with them.
//!
//! The headers must be those of libfabric 1.17, the oldest that the provider runs on. Later layouts
//! only append to these, so the declarations are true of every version. With other headers nothing
//! is written and nothing can be checked, which `--check` reports as such and does not count as a
//! failure.
//!
//! Run by `cargo xtask bindings`; needs libclang and libfabric-dev.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

/// The headers' version that the bindings are made from.
const LIBFABRIC: &str = "1.17";

/// The headers: the client's interface and the provider's.
const HEADERS: &str = "
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_prov.h>
#include <rdma/providers/fi_log.h>
";

/// The first lines of the file.
const HEAD: &str = "// SPDX-License-Identifier: MIT OR Apache-2.0
// libfabric 1.17's C interface. Made by `cargo xtask bindings`; do not edit.
";

/// Structures, enumerations and type names that the provider or its clients name.
const TYPES: &[&str] = &[
    "fi_provider|fi_info|fi_context2?|fid|fid_t|fi_addr_t|fi_alias|fi_ioc|fi_rma_(iov|ioc)",
    "fi_mr_(raw_attr|map_raw)",
    "fid_(fabric|domain|av|mr|cq|eq|cntr|ep|pep|stx|poll|wait|nic|mc)",
    "fi_ops(_fabric|_domain|_av|_mr|_cq|_eq|_cntr|_ep|_cm|_msg|_tagged|_rma|_atomic|_collective)?",
    "fi_(fabric|domain|ep|tx|rx|av|mr|cq|eq|cntr|wait|poll|atomic|device|bus|pci|link)_attr",
    "fi_(cq|eq)_(err_|cm_|msg_|data_|tagged_)?entry",
    "fi_msg(_tagged|_rma|_atomic|_fetch|_compare)?",
    "fi_(av_type|progress|threading|resource_mgmt|ep_type|wait_obj|cq_format|cq_wait_cond)",
    "fi_(hmem_iface|datatype|op|collective_op|type|mr_mode|cntr_events|link_state|bus_type)",
    "fi_(log_level|log_subsys|param_type)",
    "fi_op_(type|msg|tagged|rma|atomic|fetch_atomic|compare_atomic|cntr)|fi_deferred_work",
    "fi_triggered_context2?|fi_trigger_(event|threshold|var|xpu)",
];

/// Functions that libfabric exports.
const FUNCTIONS: &[&str] = &[
    "fi_(version|strerror|tostr|tostr_r|getinfo|freeinfo|dupinfo|fabric)",
    "fi_(log|log_enabled|param_define|param_get)",
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bindings: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => bail!("unknown argument `{other}`; the only one is --check"),
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bindings.rs");
    let installed = header_version()?;
    if !installed.starts_with(&format!("{LIBFABRIC}.")) {
        ensure!(check, "headers of libfabric {LIBFABRIC} are needed, found {installed}");
        println!(
            "bindings: NOT CHECKED: needs headers of libfabric {LIBFABRIC}, found {installed}"
        );
        return Ok(());
    }
    let wanted = generate()?;
    if check {
        let found = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        ensure!(
            found == wanted,
            "ffi/libfabric-sys/src/bindings.rs is stale: run `cargo xtask bindings`"
        );
        println!("bindings: ffi/libfabric-sys/src/bindings.rs is what libfabric {installed} gives");
    } else {
        std::fs::write(&path, wanted).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The version of the headers, as pkg-config has it.
fn header_version() -> anyhow::Result<String> {
    let output = Command::new("pkg-config")
        .args(["--modversion", "libfabric"])
        .output()
        .context("pkg-config (install pkg-config and libfabric-dev)")?;
    ensure!(output.status.success(), "pkg-config knows no libfabric: install libfabric-dev");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn generate() -> anyhow::Result<String> {
    let Ok(target) = bindgen::RustTarget::stable(85, 0) else {
        bail!("bindgen does not know Rust 1.85, the first with edition 2024");
    };
    let bindings = bindgen::Builder::default()
        .header_contents("libfabric.h", HEADERS)
        .allowlist_type(TYPES.join("|"))
        .allowlist_function(FUNCTIONS.join("|"))
        .allowlist_var("FI_.*")
        .blocklist_item("FI_NAME_MAX|FI_PATH_MAX|FI_VERSION_MAX|FI_LIB_.*")
        .prepend_enum_name(false)
        .generate_comments(false)
        .merge_extern_blocks(true)
        .wrap_unsafe_ops(true)
        .rust_target(target)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .formatter(bindgen::Formatter::Prettyplease)
        .disable_header_comment()
        .generate()?;
    Ok(format!("{HEAD}\n{bindings}"))
}
