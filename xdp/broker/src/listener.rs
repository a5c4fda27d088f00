// SPDX-License-Identifier: MIT OR Apache-2.0
//! The listening socket: systemd's (`sd_listen_fds(3)`), or one that is made at a path.
//!
//! In: the path for the second case. Out: a listening socket. All users may connect; the policy
//! decides about requests. Caller: `main.rs`, once. Bound: one socket.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use listenfd::ListenFd;

/// The socket to listen on.
pub(crate) fn listener(path: &Path) -> Result<UnixListener> {
    let passed = ListenFd::from_env().take_unix_listener(0);
    if let Some(listener) = passed.context("the descriptor from systemd is no Unix socket")? {
        log::info!("serving the socket that systemd passed");
        return Ok(listener);
    }
    let listener = bind(path).with_context(|| format!("listen at {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
        .with_context(|| path.display().to_string())?;
    log::info!("listening at {}", path.display());
    Ok(listener)
}

/// Binds a socket at `path`, in place of the socket of a dead predecessor.
fn bind(path: &Path) -> Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        result => return Ok(result?),
    }
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        bail!("there is a file that is no socket");
    }
    if UnixStream::connect(path).is_ok() {
        bail!("another xdp-broker listens there");
    }
    fs::remove_file(path)?;
    Ok(UnixListener::bind(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_predecessors_socket_is_replaced_and_a_live_ones_is_not() {
        let folder = std::env::temp_dir().join(format!("xdp-broker-{}", std::process::id()));
        let path = folder.join("socket");
        let first = bind(&path).unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("another xdp-broker"));
        drop(first);
        let _second = bind(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(bind(&path).unwrap_err().to_string().contains("no socket"));
        fs::remove_dir_all(folder).unwrap();
    }
}
