//! A scratch mount as the upper directory of an overlay, which asks for more than other programs.

use std::os::unix::fs::FileTypeExt;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::*;
use crate::harness::is_root;

/// An overlay; it ends when this is dropped.
struct Overlay(tempfile::TempDir);

impl Overlay {
    /// None where the kernel has none.
    fn new(low: &Path, up: &Path, work: &Path) -> Option<Overlay> {
        let at = open_directory();
        let [low, up, work] = [low, up, work].map(|path| path.to_str().unwrap());
        let options = format!("lowerdir={low},upperdir={up},workdir={work},userxattr");
        let options = std::ffi::CString::new(options).unwrap();
        let options = Some(options.as_c_str());
        match mount(
            "overlay",
            at.path(),
            "overlay",
            MountFlags::empty(),
            options,
        ) {
            Err(Errno::NODEV) => {
                println!("skipped: no overlayfs here");
                None
            }
            mounted => mounted.map(|()| Some(Overlay(at))).unwrap(),
        }
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        unmount(self.0.path(), UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn an_overlay_hides_by_it_what_it_moves_and_removes() {
    if !is_root("overlays") {
        return;
    }
    let (low, source) = (open_directory(), open_directory());
    let below = |name: &str| low.path().join(name);
    std::fs::write(below("moved"), "low").unwrap();
    std::fs::write(below("removed"), "low").unwrap();
    std::fs::write(below("changed"), "low").unwrap();
    let mounted = Mounted::new(source.path(), &["rw", "scratch", "allow_other"]);
    let [up, work] = ["up", "work"].map(|name| mounted.join(name));
    std::fs::create_dir(&up).unwrap();
    std::fs::create_dir(&work).unwrap();
    for round in 0..2 {
        let Some(overlay) = Overlay::new(low.path(), &up, &work) else {
            return;
        };
        let at = |name: &str| overlay.0.path().join(name);
        if round == 0 {
            std::fs::rename(at("moved"), at("here")).unwrap();
            std::fs::remove_file(at("removed")).unwrap();
            std::fs::write(at("changed"), "high").unwrap();
        }
        assert!(!at("moved").exists() && !at("removed").exists());
        assert_content(&at("here"), b"low");
        assert_content(&at("changed"), b"high");
    }
    let whiteout = std::fs::symlink_metadata(up.join("moved")).unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    assert_content(&below("moved"), b"low");
}
