// SPDX-License-Identifier: MIT OR Apache-2.0
//! A broker with the listening socket of another process.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{eventually, skipped};
use crate::{NOBODY, policy, receive_reply};

#[test]
fn root_systemds_socket_is_taken() {
    if skipped() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("ofi-broker-activated-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("policy.toml"), policy(&[NOBODY], "")).unwrap();
    let path = folder.join("socket");
    // Rules of this broker's predecessor, and of a broker at the path of `--socket`.
    let [own, others] = ["socket.rules", "other.rules"].map(|name| {
        fs::create_dir(folder.join(name)).unwrap();
        let record = folder.join(name).join("4711 0 198.18.0.1:7000");
        fs::write(&record, "").unwrap();
        record
    });
    // Like systemd: the listening socket is descriptor 3, and two variables say so. The shell
    // cannot make a socket, so this is Python.
    let script = "import os,socket,sys\n\
        s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()\n\
        os.dup2(s.fileno(),3); os.set_inheritable(3,True); os.environ['LISTEN_FDS']='1'\n\
        os.environ['LISTEN_PID']=str(os.getpid())\n\
        os.execv(sys.argv[2],[sys.argv[2],'--policy',sys.argv[3],'--socket',sys.argv[4]])";
    let mut child = Command::new("python3")
        .args(["-c", script])
        .arg(&path)
        .arg(env!("CARGO_BIN_EXE_xdp-broker"))
        .arg(folder.join("policy.toml"))
        .arg(folder.join("other"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the socket is there", || UnixStream::connect(&path).is_ok());
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let answer = receive_reply(&stream);
    let gone = stream.write_all(&[0; 8]).is_err() || receive_reply(&stream).is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    let records = [own, others].map(|record| record.exists());
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(records, [false, true], "those beside its own socket are offered");
    assert!(answer.unwrap().0.reason.contains("is in no rule") && gone);
}
