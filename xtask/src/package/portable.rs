// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C library that the packaged programs need: none newer than that of Debian 12.
//!
//! In: programs. Out: success, or the symbols of newer versions. A program that was linked on a
//! newer system may need such symbols, and does not start on an older one (ELF symbol versioning,
//! `.gnu.version_r`). Called by `package`. Bound: the programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::ElfFile;

/// The version of Debian 12, the oldest system of the packages.
const NEWEST: Version = [2, 36, 0];

/// Major, minor, and a third number that glibc 2.2.5 and 2.3.4 have.
pub(super) type Version = [u32; 3];

/// The version of this system.
pub(super) fn host() -> Option<Version> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    parse(&format!("GLIBC_{}", text.trim().strip_prefix("glibc ")?))
}

/// The reason why a failed check tells nothing: a newer system links with its own versions. An
/// automatic build has to run on Debian 12.
pub(super) fn excused(
    checked: Result<()>,
    host: Option<Version>,
    strict: bool,
) -> Result<Option<String>> {
    match checked {
        Err(error) if !strict && host.is_some_and(|host| host > NEWEST) => {
            Ok(Some(format!("{error:#}")))
        }
        other => other.map(|()| None),
    }
}

/// The oldest C library with which all of `programs` start, in words.
pub(super) fn oldest(programs: &[PathBuf]) -> Result<String> {
    let mut oldest = Version::default();
    for program in programs {
        oldest = needed(program)?.into_iter().fold(oldest, Version::max);
    }
    let place = if oldest > NEWEST { "not for Debian 12: build there" } else { "Debian 12 has it" };
    Ok(format!("glibc {} or later; {place}", shown(oldest)))
}

/// Fails if one of `programs` needs a symbol of a C library after [`NEWEST`].
pub(super) fn check(programs: &[PathBuf]) -> Result<()> {
    for program in programs {
        let needed = needed(program)?;
        ensure!(!needed.is_empty(), "{} names no version of glibc", program.display());
        let newer: Vec<String> =
            needed.iter().filter(|one| **one > NEWEST).map(|one| shown(*one)).collect();
        ensure!(
            newer.is_empty(),
            "{} needs glibc {}, and Debian 12 has {}: build on Debian 12",
            program.display(),
            newer.join(", "),
            shown(NEWEST)
        );
    }
    Ok(())
}

/// The versions of glibc that a program takes symbols of.
fn needed(program: &Path) -> Result<Vec<Version>> {
    let bytes = fs::read(program).with_context(|| format!("no {}", program.display()))?;
    let file = ElfFile::<FileHeader64<Endianness>>::parse(&*bytes)?;
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let Some((mut entries, link)) = sections.gnu_verneed(endian, &*bytes)? else {
        return Ok(Vec::new());
    };
    let strings = sections.strings(endian, &*bytes, link)?;
    let mut versions = Vec::new();
    while let Some((_, mut of_library)) = entries.next()? {
        while let Some(version) = of_library.next()? {
            let name = version.name(endian, strings)?;
            versions.extend(parse(&String::from_utf8_lossy(name)));
        }
    }
    Ok(versions)
}

/// `GLIBC_2.36`; other names are those of other libraries.
fn parse(name: &str) -> Option<Version> {
    let mut version = Version::default();
    let mut numbers = name.strip_prefix("GLIBC_")?.split('.');
    for place in &mut version {
        *place = numbers.next().map_or(Some(0), |number| number.parse().ok())?;
    }
    Some(version)
}

fn shown([major, minor, _]: Version) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::origin::output;

    #[test]
    fn versions_are_numbers_and_not_texts() {
        assert_eq!(parse("GLIBC_2.2.5"), Some([2, 2, 5]));
        assert!(parse("GLIBC_2.9").unwrap() < NEWEST);
        assert!(parse("GLIBC_2.38").unwrap() > NEWEST);
        for other in ["GCC_3.0", "GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "FABRIC_1.0"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_newer_system_is_an_excuse_outside_automatic_builds() {
        let failed = || Err(anyhow::anyhow!("needs glibc 2.38"));
        let newer = Some([2, 39, 0]);
        assert_eq!(excused(failed(), newer, false).unwrap().as_deref(), Some("needs glibc 2.38"));
        assert!(excused(failed(), newer, true).is_err());
        assert!(excused(failed(), Some(NEWEST), false).is_err());
        assert!(excused(failed(), None, false).is_err());
        assert_eq!(excused(Ok(()), newer, false).unwrap(), None);
        assert!(host().is_some());
    }

    /// A library with a symbol of glibc 2.99 stands in for a newer system.
    #[test]
    fn a_program_that_needs_a_newer_c_library_is_refused() {
        let folder = std::env::temp_dir().join(format!("xtask-glibc-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        write("new.c", "int tomorrow(void) { return 0; }\n");
        write("new.map", "GLIBC_2.99 { global: tomorrow; };\n");
        write("use.c", "int tomorrow(void);\nint main(void) { return tomorrow(); }\n");
        write("old.c", "#include <stdio.h>\nint main(void) { return puts(\"\"); }\n");
        let cc = |arguments: &[&str]| {
            output(Command::new("cc").current_dir(&folder).args(arguments)).unwrap();
        };
        cc(&["-shared", "-Wl,--version-script=new.map", "-o", "libnew.so", "new.c"]);
        cc(&["-o", "new", "use.c", "-L.", "-lnew"]);
        cc(&["-o", "old", "old.c"]);
        check(&[folder.join("old")]).unwrap();
        assert!(oldest(&[folder.join("old")]).unwrap().ends_with("Debian 12 has it"));
        let both = oldest(&[folder.join("new"), folder.join("old")]).unwrap();
        assert_eq!(both, "glibc 2.99 or later; not for Debian 12: build there");
        let error = check(&[folder.join("old"), folder.join("new")]).unwrap_err().to_string();
        assert!(error.contains("needs glibc 2.99, and Debian 12 has 2.36"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
