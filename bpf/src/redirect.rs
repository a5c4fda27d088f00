// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the program, attaches it or joins the attached one, and keeps it attached.
//!
//! In: an interface and a mode. Out: a [`Redirect`]; the crate's documentation describes how
//! processes share one. Caller: the AF_XDP port. Bound: [`OPEN_TRIES`] attempts, [`OPEN_PAUSE`]
//! apart.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Once};
use std::thread;
use std::time::Duration;

use libbpf_rs::query::{
    LinkInfoIter, LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions, ProgramInfo,
};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapHandle, PrintLevel, Program, Xdp, XdpFlags, libbpf_sys};
use nix::sys::signal::{SigSet, SigmaskHow};

use crate::attach_mode::AttachMode;
use crate::attached::{self, Attached, Entry, ProgramLink};
use crate::claim::Claim;
use crate::error::{CAPABILITY_LOAD, CAPABILITY_SHARE, Error};
use crate::layout::{Counters, EndpointAddress};
use crate::maps::Maps;
use crate::raw;
use crate::skeleton::RedirectSkelBuilder;

/// Name of the program, `ofi_xdp` in `redirect.bpf.c`.
const NAME: &str = "ofi_xdp";
/// Its name in a process that passes sockets on.
const NAME_LENT: &str = "ofi_xdp_lent";
/// Attempts of [`Redirect::open`] while other processes attach and detach.
const OPEN_TRIES: u32 = 20;
/// Time between two attempts. Detaching takes the kernel an RCU grace period, some milliseconds.
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// The form in which the program is loaded.
#[derive(Clone, Copy, Default, Debug)]
struct Form {
    /// For frames in several buffers.
    multi_buffer: bool,
    /// For a process that passes sockets on.
    lent: bool,
}

/// The program, attached to one interface while a clone of this value or a `Redirect` of another
/// process lives. One of [`Self::open_lent`] is attached while that process has it.
#[derive(Clone, Debug)]
pub struct Redirect(Arc<Attached>);

impl Redirect {
    /// Attaches the program to interface `ifindex` of the calling thread's network namespace, or
    /// joins the processes that have attached it. A joined program stays in its mode, which
    /// [`Self::mode`] returns.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Mode`], [`Error::Permission`], [`Error::Raced`], [`Error::Os`].
    pub fn open(ifindex: i32, mode: AttachMode) -> Result<Self, Error> {
        Self::open_with(ifindex, mode, Form::default())
    }

    /// Opens the program like [`Self::open`], in the form for frames in several buffers. Drivers
    /// demand this form where the MTU does not fit in one buffer; in some drivers it costs more per
    /// frame. A process that joins others gets the form that they chose.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_multi_buffer(ifindex: i32, mode: AttachMode) -> Result<Self, Error> {
        Self::open_with(ifindex, mode, Form { multi_buffer: true, lent: false })
    }

    /// Opens the program like [`Self::open`] or [`Self::open_multi_buffer`], in a process that
    /// passes claimed sockets on. Their entries would outlive a killed process with the program, so
    /// this joins no other process, and processes that join this one do not keep the program.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_lent(ifindex: i32, mode: AttachMode, multi_buffer: bool) -> Result<Self, Error> {
        Self::open_with(ifindex, mode, Form { multi_buffer, lent: true })
    }

    fn open_with(ifindex: i32, mode: AttachMode, form: Form) -> Result<Self, Error> {
        let mut loaded = None;
        // bound: OPEN_TRIES
        for _ in 0..OPEN_TRIES {
            let opened = match attached(ifindex)? {
                None => attach(ifindex, mode, load(&mut loaded, form)?)?,
                Some((program, mode)) => match attached::find(program) {
                    Some(ours) => ours.upgrade().map(Self),
                    None if form.lent => return Err(Error::Foreign { ifindex, program }),
                    None => share(ifindex, program, mode, load(&mut loaded, form)?)?,
                },
            };
            if let Some(redirect) = opened {
                return Ok(redirect);
            }
            thread::sleep(OPEN_PAUSE);
        }
        Err(Error::Raced)
    }

    /// The mode of the attached program.
    #[must_use]
    pub fn mode(&self) -> AttachMode {
        self.0.mode
    }

    /// Whether the program is still on the interface. An administrator may detach it (`bpftool link
    /// detach`), the interface may disappear, and the process of [`Self::open_lent`] may end. One
    /// system call, or three in a process that has joined that one.
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::Permission`] in such a process that has no `CAP_SYS_ADMIN` any more.
    pub fn is_attached(&self) -> Result<bool, Error> {
        const WHAT: &str = "ask for a link's interface";
        let ifindex = match &self.0.link {
            ProgramLink::Open(link) => raw::link_ifindex(link.as_fd()),
            ProgramLink::ById(id) => match raw::link_fd_by_id(*id) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                link => link.and_then(|link| raw::link_ifindex(link.as_fd())),
            },
        };
        ifindex
            .map(|ifindex| ifindex != 0)
            .map_err(|error| Error::os(WHAT, CAPABILITY_SHARE, error))
    }

    /// The descriptor that keeps the program attached. `None` if another process alone does
    /// ([`Self::open_lent`]).
    #[must_use]
    pub fn link(&self) -> Option<BorrowedFd<'_>> {
        match &self.0.link {
            ProgramLink::Open(link) => Some(link.as_fd()),
            ProgramLink::ById(_) => None,
        }
    }

    /// Whether `other` is the same attached program.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        // A process has one value for each program (`attached.rs`).
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Redirects packets for `endpoint` that arrive on `queue` to `socket`, an AF_XDP socket that
    /// is bound to that queue. Packets of more than `longest` bytes, IP header included, stay with
    /// the kernel. The caller owns the kernel socket that is bound to the endpoint's address; this
    /// makes the claim unique.
    ///
    /// # Errors
    /// [`Error::NoSlot`], [`Error::PortClaimed`], [`Error::Permission`], [`Error::Os`].
    pub fn claim(
        &self,
        queue: u32,
        endpoint: EndpointAddress,
        longest: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<Claim, Error> {
        Claim::new(self.0.maps.duplicate()?, queue, endpoint, longest, socket)
    }

    /// Whether an endpoint of any process has a port. Those that a killed one has left count, too.
    #[must_use]
    pub fn has_ports(&self) -> bool {
        !self.0.maps.ports().is_empty()
    }

    /// The interface's frames by verdict.
    ///
    /// # Errors
    /// [`Error::Permission`] and [`Error::Os`].
    pub fn counters(&self) -> Result<Counters, Error> {
        self.0.maps.counters()
    }
}

/// The program in the kernel, attached to nothing.
#[derive(Debug)]
pub struct Loaded {
    program: OwnedFd,
    maps: Maps,
}

impl Loaded {
    /// Loads a new instance of the program with maps of its own.
    ///
    /// # Errors
    /// [`Error::Permission`] and [`Error::Os`].
    pub fn new() -> Result<Self, Error> {
        Self::with_form(Form::default())
    }

    /// Loads a new instance in the form for frames in several buffers (Linux 5.18).
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn multi_buffer() -> Result<Self, Error> {
        Self::with_form(Form { multi_buffer: true, lent: false })
    }

    fn with_form(form: Form) -> Result<Self, Error> {
        const WHAT: &str = "load the XDP program";
        log_libbpf();
        let failed = |error| Error::libbpf(WHAT, CAPABILITY_LOAD, error);
        let mut object = MaybeUninit::uninit();
        let mut open = RedirectSkelBuilder::default().open(&mut object).map_err(failed)?;
        let (mut chosen, mut other) = (&mut open.progs.ofi_xdp, &mut open.progs.ofi_xdp_lent);
        if form.lent {
            std::mem::swap(&mut chosen, &mut other);
        }
        other.set_autoload(false);
        if form.multi_buffer {
            chosen.set_flags(libbpf_sys::BPF_F_XDP_HAS_FRAGS);
        }
        let skeleton = undisturbed(|| open.load()).map_err(failed)?;
        let handle = |map: &libbpf_rs::MapMut<'_>| MapHandle::try_from(map).map_err(failed);
        let maps = Maps::new(
            handle(&skeleton.maps.ports)?,
            handle(&skeleton.maps.sockets)?,
            handle(&skeleton.maps.counters)?,
            handle(&skeleton.maps.passed)?,
        );
        maps.freeze_passed()?;
        let progs = &skeleton.progs;
        let program = if form.lent { &progs.ofi_xdp_lent } else { &progs.ofi_xdp };
        let program = program
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Error::os(WHAT, CAPABILITY_LOAD, error))?;
        Ok(Self { program, maps })
    }

    /// Runs the program once on `frame`, as if it had arrived on queue 0 (`BPF_PROG_TEST_RUN`), and
    /// returns its `XDP_*` action. The frame goes nowhere.
    ///
    /// # Errors
    /// [`Error::Permission`] and [`Error::Os`], also for a frame shorter than an Ethernet header.
    pub fn run(&self, frame: &[u8]) -> Result<u32, Error> {
        raw::run(self.program.as_fd(), frame)
            .map_err(|error| Error::os("run the XDP program", CAPABILITY_LOAD, error))
    }

    /// Claims a port of this instance; see [`Redirect::claim`].
    ///
    /// # Errors
    /// Those of [`Redirect::claim`].
    pub fn claim(
        &self,
        queue: u32,
        endpoint: EndpointAddress,
        longest: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<Claim, Error> {
        Claim::new(self.maps.duplicate()?, queue, endpoint, longest, socket)
    }

    /// The frames of this instance by verdict.
    ///
    /// # Errors
    /// [`Error::Permission`] and [`Error::Os`].
    pub fn counters(&self) -> Result<Counters, Error> {
        self.maps.counters()
    }
}

/// The instance in `loaded`; loads one if there is none.
fn load(loaded: &mut Option<Loaded>, form: Form) -> Result<&Loaded, Error> {
    match loaded {
        Some(loaded) => Ok(loaded),
        None => Ok(loaded.insert(Loaded::with_form(form)?)),
    }
}

/// The id and the mode of the XDP program on the interface, ours or foreign.
fn attached(ifindex: i32) -> Result<Option<(u32, AttachMode)>, Error> {
    // The library's call takes a program and does not use it.
    let state = Xdp::new(io::stderr().as_fd())
        .query(ifindex, XdpFlags::NONE)
        .map_err(|error| Error::libbpf("query the interface", CAPABILITY_LOAD, error))?;
    // A driver may run a program each in native, hardware and generic mode (XDP_ATTACHED_MULTI).
    // Every mode but generic counts as native here.
    let ids = [state.drv_prog_id, state.hw_prog_id, state.prog_id, state.skb_prog_id];
    let Some(id) = ids.into_iter().find(|id| *id != 0) else {
        return Ok(None);
    };
    let generic = id == state.skb_prog_id;
    Ok(Some((id, if generic { AttachMode::Generic } else { AttachMode::Native })))
}

/// Attaches our instance. `None`: another process attached one first.
fn attach(ifindex: i32, mode: AttachMode, loaded: &Loaded) -> Result<Option<Redirect>, Error> {
    const WHAT: &str = "attach the XDP program";
    let maps = loaded.maps.duplicate()?;
    let program = Program::id_from_fd(loaded.program.as_fd())
        .map_err(|error| Error::libbpf(WHAT, CAPABILITY_LOAD, error))?;
    // The entry exists before the program can be found on the interface.
    let entry = Entry::new(program);
    let source = match raw::link_create(loaded.program.as_fd(), ifindex, mode.flags()) {
        Ok(link) => return Ok(Some(Redirect(entry.hold(mode, maps, ProgramLink::Open(link))))),
        Err(source) => source,
    };
    match source.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::ResourceBusy => Ok(None),
        io::ErrorKind::PermissionDenied => Err(Error::os(WHAT, CAPABILITY_LOAD, source)),
        _ => Err(Error::Mode { ifindex, mode: mode.name(), source }),
    }
}

/// Joins the processes that have attached `program` to the interface. `None`: it was detached
/// meanwhile.
fn share(
    ifindex: i32,
    program: u32,
    mode: AttachMode,
    loaded: &Loaded,
) -> Result<Option<Redirect>, Error> {
    const WHAT: &str = "share the XDP program of another process";
    let failed = |error| Error::libbpf(WHAT, CAPABILITY_SHARE, error);
    // One request by id distinguishes a missing capability from a detached program. The lists below
    // end silently in either case.
    match Program::fd_from_id(program) {
        Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => return Ok(None),
        // Without the capability the kernel does not report that the program is gone.
        Err(_) if attached(ifindex)?.is_none_or(|(now, _)| now != program) => return Ok(None),
        result => result.map(drop).map_err(failed)?,
    }
    let entry = Entry::new(program);
    let own = Program::id_from_fd(loaded.program.as_fd()).map_err(failed)?;
    let Some(attached_info) = same_program(own, program, ifindex)? else {
        return Ok(None);
    };
    // Each instance of our program is attached at most once, so the program identifies the link.
    let link = LinkInfoIter::default()
        .find(|link| link.prog_id == program && matches!(&link.info, LinkTypeInfo::Xdp(_)));
    let Some(found) = link else {
        return Ok(None);
    };
    let link = match raw::link_fd_by_id(found.id) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(|error| Error::os(WHAT, CAPABILITY_SHARE, error))?,
    };
    let (mut ports, mut sockets, mut counters, mut passed) = (None, None, None, None);
    for id in attached_info.map_ids {
        // Our descriptor of the link keeps the program and its maps alive.
        let map = MapHandle::from_map_id(id).map_err(failed)?;
        match map.name().to_str() {
            Some(Maps::PORTS) => ports = Some(map),
            Some(Maps::SOCKETS) => sockets = Some(map),
            Some(Maps::COUNTERS) => counters = Some(map),
            Some(Maps::PASSED) => passed = Some(map),
            _ => {}
        }
    }
    let (Some(ports), Some(sockets), Some(counters), Some(passed)) =
        (ports, sockets, counters, passed)
    else {
        return Err(Error::Foreign { ifindex, program });
    };
    let maps = Maps::new(ports, sockets, counters, passed);
    let lent = attached_info.name.as_bytes() == NAME_LENT.as_bytes();
    let link = if lent { ProgramLink::ById(found.id) } else { ProgramLink::Open(link) };
    Ok(Some(Redirect(entry.hold(mode, maps, link))))
}

/// The kernel's record of the attached program, if it is another instance of `own`: one of our
/// names and an equal tag, the hash of the instructions. `None`: it was detached.
fn same_program(own: u32, attached: u32, ifindex: i32) -> Result<Option<ProgramInfo>, Error> {
    let (mut own_info, mut attached_info) = (None, None);
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    for info in ProgInfoIter::with_query_opts(options) {
        if info.id == own {
            own_info = Some(info);
        } else if info.id == attached {
            attached_info = Some(info);
        }
    }
    let Some(attached_info) = attached_info else {
        return Ok(None);
    };
    let name = attached_info.name.as_bytes();
    let is_named = name == NAME.as_bytes() || name == NAME_LENT.as_bytes();
    match own_info {
        Some(own_info) if is_named && own_info.tag.0 == attached_info.tag.0 => {
            Ok(Some(attached_info))
        }
        _ => Err(Error::Foreign { ifindex, program: attached }),
    }
}

/// Runs `load` with all signals of the thread blocked. The verifier gives up with `EAGAIN` when a
/// signal is pending; a timer that is faster than it would end every attempt
/// (kernel/bpf/verifier.c, `do_check`).
fn undisturbed<T>(load: impl FnOnce() -> T) -> T {
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let loaded = load();
    if let Ok(mask) = mask {
        // The mask was the thread's, so it is valid.
        let _ = mask.thread_set_mask();
    }
    loaded
}

/// Sends libbpf's own messages to `log` in place of standard error, once for the process.
fn log_libbpf() {
    static ONCE: Once = Once::new();
    fn print(level: PrintLevel, text: String) {
        let text = text.trim_end();
        match level {
            PrintLevel::Warn => log::warn!("libbpf: {text}"),
            PrintLevel::Info => log::info!("libbpf: {text}"),
            PrintLevel::Debug => log::trace!("libbpf: {text}"),
        }
    }
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Info, print)));
    });
}
