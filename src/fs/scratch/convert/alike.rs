//! A new file gets what the one had that it stands for: owner, group, extended attributes, access
//! control lists, mode and times. What cannot be given is an error: then the old one stays.
//!
//! Used by [`super::exchange`].

use std::ffi::OsStr;

use crate::disk::{Disk, DiskFile, NewAttributes, NewTime, Target, XattrSetting};
use crate::error::Result;
use crate::source::{Source, Stat};

/// They speak of the file's bytes and inode, and are the system's to make.
const OF_THE_BYTES: [&str; 2] = ["security.ima", "security.evm"];

pub(super) fn make_alike(
    disk: &dyn Disk,
    old: &dyn Source,
    stat: &Stat,
    new: &dyn DiskFile,
) -> Result<()> {
    let target = Target::Open(new.source());
    let own = new.source().stat()?;
    if (own.uid, own.gid) != (stat.uid, stat.gid) {
        let owner = NewAttributes {
            uid: Some(stat.uid),
            gid: Some(stat.gid),
            ..NewAttributes::default()
        };
        disk.set_attributes(target, &owner)?;
    }
    take_xattrs(disk, old, new.source())?;
    // The mode after the owner and the lists of rights, which change it; then the times.
    let attributes = NewAttributes {
        mode: Some(stat.mode.into()),
        atime: Some(NewTime::At(stat.atime)),
        mtime: Some(NewTime::At(stat.mtime)),
        ..NewAttributes::default()
    };
    disk.set_attributes(target, &attributes)
}

/// A directory may give lists of rights to files that are made in it: those go.
fn take_xattrs(disk: &dyn Disk, old: &dyn Source, new: &dyn Source) -> Result<()> {
    let (old, own) = (old.posix()?, new.posix()?);
    let (wanted, has) = (old.xattr_names()?, own.xattr_names()?);
    let target = Target::Open(new);
    let is_of_bytes = |name: &OsStr| OF_THE_BYTES.iter().any(|of| name == *of);
    for name in has.iter().filter(|name| !wanted.contains(name)) {
        if !is_of_bytes(name) {
            disk.remove_xattr(target, name)?;
        }
    }
    for name in wanted.iter().filter(|name| !is_of_bytes(name)) {
        let value = old.xattr(name)?;
        let is_there = has.contains(name) && own.xattr(name).is_ok_and(|own| own == value);
        if !is_there {
            disk.set_xattr(target, name, &value, XattrSetting::Any)?;
        }
    }
    Ok(())
}
