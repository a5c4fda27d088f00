// SPDX-License-Identifier: MIT OR Apache-2.0
//! The provider under the name `tcp`: it takes the place of libfabric's own, however it is found.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Libfabric, assert_success, provider_path, scratch};

/// A copy of the provider in a folder of this name.
fn copied(folder: &str) -> PathBuf {
    let folder = scratch("personality").join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let own = folder.join(format!("libxdp-fi.so.{}", std::process::id()));
    std::fs::copy(support::library(), &own).unwrap();
    std::fs::rename(&own, folder.join("libxdp-fi.so")).unwrap();
    folder
}

/// `fi_info -p NAME -t FI_EP_MSG` with this `FI_PROVIDER_PATH`, over kernel sockets.
fn fi_info(libfabric: Libfabric, path: &str, name: &str) -> Option<Command> {
    let mut command = libfabric.command(&libfabric.tool("fi_info")?)?;
    command.args(["-p", name, "-t", "FI_EP_MSG", "-v"]).env("FI_PROVIDER_PATH", path);
    command.env("FI_XDP_TIER", "udp").env("FI_XDP_IFACE", "lo");
    Some(command)
}

/// Whether the offers are this provider's, which has a line about its tier; and their protocol.
#[track_caller]
fn offers(command: &mut Command) -> (bool, bool) {
    let output = command.output().expect("fi_info: install libfabric-bin");
    assert_success("fi_info", &output);
    let text = String::from_utf8_lossy(&output.stdout);
    (text.contains("tier: udp"), text.contains("FI_PROTO_SOCK_TCP"))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn the_variable_gives_the_name_whatever_the_form_of_the_path() {
    let folder = text(provider_path());
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        for path in [folder.clone(), format!("@{folder}"), format!("/none:{folder}")] {
            let Some(mut command) = fi_info(libfabric, &path, "tcp") else { continue };
            let found = offers(command.env("FI_XDP_NAME", "tcp"));
            assert_eq!(found, (true, true), "{path} on {libfabric:?}");
        }
    }
    // A file, which libfabric knows since 1.21.
    let file = format!("+{folder}/libxdp-fi.so");
    if let Some(mut command) = fi_info(Libfabric::Two, &file, "tcp") {
        assert_eq!(offers(command.env("FI_XDP_NAME", "tcp")), (true, true));
    }
}

#[test]
fn without_the_variable_tcp_is_libfabrics_own() {
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        let Some(mut command) = fi_info(libfabric, &text(provider_path()), "tcp") else { continue };
        assert_eq!(offers(&mut command), (false, true), "{libfabric:?}");
    }
}

#[test]
fn the_folder_gives_the_name_and_both_names_work_in_one_process() {
    let (own, as_tcp) = (text(provider_path()), text(&copied("libfabric-as-tcp")));
    for libfabric in [Libfabric::Installed, Libfabric::Two] {
        let both = format!("{own}:{as_tcp}");
        for (path, name, protocol) in
            [(&as_tcp, "tcp", true), (&both, "tcp", true), (&both, "xdp", false)]
        {
            let Some(mut command) = fi_info(libfabric, path, name) else { continue };
            assert_eq!(offers(&mut command), (true, protocol), "{path}, {name}, {libfabric:?}");
        }
        let Some(mut command) = fi_info(libfabric, &as_tcp, "xdp") else { continue };
        let own_name = command.env("FI_XDP_NAME", "xdp");
        assert_eq!(offers(own_name), (true, false), "the variable is stronger");
    }
}

/// Datagram endpoints of the name are in front of all others over IP from libfabric 1.18 on.
#[test]
fn datagram_offers_are_in_front_of_layered_ones() {
    let Some(mut command) = fi_info(Libfabric::Two, &text(provider_path()), "tcp") else { return };
    let program = Libfabric::Two.tool("fi_info").unwrap();
    let mut list = Libfabric::Two.command(&program).unwrap();
    list.args(["-t", "FI_EP_RDM", "-c", "FI_MSG|FI_RMA"]).env("FI_XDP_NAME", "tcp");
    let output = list.env("FI_XDP_TIER", "udp").output().unwrap();
    assert_success("fi_info", &output);
    let text = String::from_utf8_lossy(&output.stdout);
    let over_ip = ["tcp", "tcp;ofi_rxm", "udp;ofi_rxd", "sockets"];
    let names = text.lines().filter_map(|line| line.strip_prefix("provider: "));
    let mut names = names.filter(|name| over_ip.contains(name));
    assert_eq!(names.next(), Some("tcp"), "{text}");
    assert_eq!(offers(command.env("FI_XDP_NAME", "tcp")), (true, true));
}
