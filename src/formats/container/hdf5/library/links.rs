//! The links of one group, as they are stored: nothing is opened and nothing is followed.

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem;
use std::ptr;

use hdf5_sys::h5::{H5_index_t, H5_iter_order_t, herr_t};
use hdf5_sys::h5i::hid_t;
use hdf5_sys::h5l::{H5L_info2_t, H5Lget_val, H5Literate2, H5Lunpack_elink_val};
use hdf5_sys::h5o::{H5O_INFO_BASIC, H5O_info2_t, H5O_token_t, H5Oget_info3};
use hdf5_sys::h5p::H5P_DEFAULT;

use super::identifier::{Identifier, Outcome, check};

/// Longest name of a link that is followed, in bytes.
pub(super) const NAME_MOST: usize = 64 << 10;
/// Longest target of a soft or external link, in bytes.
pub(super) const VALUE_MOST: usize = 64 << 10;

/// A link and what it holds.
pub(super) struct ListedLink {
    pub(super) name: CString,
    pub(super) to: LeadsTo,
    /// Its place among those of the group, by age, where the group keeps that.
    pub(super) age: Option<u32>,
}

pub(super) enum LeadsTo {
    /// An object of the file, by its token.
    Object(u64),
    /// A soft link, with this many bytes of path.
    Path(usize),
    /// Another file, with this many bytes of name and path.
    Elsewhere(usize),
    /// A soft or external link that holds more than [`VALUE_MOST`]; its bytes.
    Endless(usize),
    /// A link of a class that only some program knows, by its number.
    Foreign(i32),
    /// Not looked at, because the name is longer than [`NAME_MOST`]; its bytes. The name is cut.
    Unsaid(usize),
}

/// Why links are missing.
pub(super) enum Missing {
    /// Those that the library found before it met this are there.
    Damage(String),
    /// Those are there that there was room for.
    TooMany,
}

/// The links of a group, sorted by name; at most `most`. Also why some are missing, if any are.
pub(super) fn of(group: &Identifier, most: usize) -> (Vec<ListedLink>, Option<Missing>) {
    let mut listing = Listing {
        links: Vec::new(),
        most,
        cut: false,
    };
    // In another order the library lists everything before the first callback.
    let (by, order) = (H5_index_t::H5_INDEX_NAME, H5_iter_order_t::H5_ITER_NATIVE);
    let (start, at) = (ptr::null_mut(), (&raw mut listing).cast());
    // SAFETY: the handle is a group; the callback gets our `listing`, which outlives the call.
    let listed = check(unsafe { H5Literate2(group.id(), by, order, start, Some(note), at) });
    let Listing { mut links, cut, .. } = listing;
    let found = links.len();
    links.sort_by(|a, b| a.name.cmp(&b.name));
    // Names that were cut may be the same.
    let unsaid = |link: &ListedLink| matches!(link.to, LeadsTo::Unsaid(_));
    links.dedup_by(|a, b| a.name == b.name && !unsaid(a) && !unsaid(b));
    let twice = links.len() < found;
    let twice = twice.then(|| String::from("links of the same name are left out"));
    let damage = listed.err().or(twice).map(Missing::Damage);
    (links, damage.or(cut.then_some(Missing::TooMany)))
}

struct Listing {
    links: Vec<ListedLink>,
    most: usize,
    cut: bool,
}

/// `H5L_info2_t`, with plain numbers: a link's class may be one that the crate's enumeration lacks.
#[repr(C)]
struct RawLinkInfo {
    class: i32,
    order_valid: u8,
    order: i64,
    encoding: i32,
    value: RawLinkValue,
}

/// The union of a token and a size.
#[repr(C, align(8))]
struct RawLinkValue([u8; 16]);

const _: () = assert!(mem::size_of::<RawLinkInfo>() == mem::size_of::<H5L_info2_t>());

impl RawLinkInfo {
    /// The address of an object's header: what tokens are in files of libhdf5's own format.
    fn token(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.value.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    fn size(&self) -> usize {
        let size: [u8; mem::size_of::<usize>()] = *self.value.0.first_chunk().unwrap_or(&[0; _]);
        // The union holds a number of this machine.
        #[allow(clippy::host_endian_bytes)]
        usize::from_ne_bytes(size)
    }
}

const HARD: i32 = 0;
const SOFT: i32 = 1;
const EXTERNAL: i32 = 64;

extern "C" fn note(
    _: hid_t,
    name: *const c_char,
    info: *const H5L_info2_t,
    listing: *mut c_void,
) -> herr_t {
    // SAFETY: `listing` is the one of `of`; `RawLinkInfo` has the layout of what `info` points to.
    let (listing, info) = unsafe {
        (
            &mut *listing.cast::<Listing>(),
            &*info.cast::<RawLinkInfo>(),
        )
    };
    // SAFETY: libhdf5 passes a NUL-terminated name that lives through the call.
    let name = unsafe { CStr::from_ptr(name) };
    if listing.links.len() >= listing.most {
        listing.cut = true;
        return 1;
    }
    let name = name.to_bytes();
    let to = match info.class {
        _ if name.len() > NAME_MOST => LeadsTo::Unsaid(name.len()),
        HARD => LeadsTo::Object(info.token()),
        SOFT | EXTERNAL if info.size() > VALUE_MOST => LeadsTo::Endless(info.size()),
        SOFT => LeadsTo::Path(info.size()),
        EXTERNAL => LeadsTo::Elsewhere(info.size()),
        other => LeadsTo::Foreign(other),
    };
    let name = &name[..name.len().min(NAME_MOST)];
    // It has no NUL, since it ended at one.
    listing.links.push(ListedLink {
        name: CString::new(name).unwrap_or_default(),
        to,
        age: u32::try_from(info.order)
            .ok()
            .filter(|_| info.order_valid != 0),
    });
    0
}

/// The path that a soft link holds.
pub(super) fn path(group: &Identifier, name: &CStr, size: usize) -> Outcome<Vec<u8>> {
    stored(group, name, size).map(until_nul)
}

/// What stands before the first NUL.
pub(super) fn until_nul(mut text: Vec<u8>) -> Vec<u8> {
    let end = memchr::memchr(0, &text);
    text.truncate(end.unwrap_or(text.len()));
    text
}

/// The name of the file and the path in it that an external link holds.
pub(super) fn elsewhere(
    group: &Identifier,
    name: &CStr,
    size: usize,
) -> Outcome<(Vec<u8>, Vec<u8>)> {
    let value = stored(group, name, size)?;
    let (mut file, mut path, mut flags) = (ptr::null(), ptr::null(), 0);
    // SAFETY: the value and its length are ours; the two strings will point into it.
    check(unsafe {
        H5Lunpack_elink_val(
            value.as_ptr().cast(),
            value.len(),
            &mut flags,
            &mut file,
            &mut path,
        )
    })?;
    // SAFETY: the call succeeded, so both point to NUL-terminated strings within the value.
    let text = |at: *const c_char| unsafe { CStr::from_ptr(at) }.to_bytes().to_vec();
    Ok((text(file), text(path)))
}

fn stored(group: &Identifier, name: &CStr, size: usize) -> Outcome<Vec<u8>> {
    let mut value: Vec<u8> = vec![0; size];
    let at = value.as_mut_ptr().cast();
    // SAFETY: the handle is a group, the name is NUL-terminated, the value has room for `size`
    // bytes.
    check(unsafe { H5Lget_val(group.id(), name.as_ptr(), at, size, H5P_DEFAULT) })?;
    Ok(value)
}

/// A token as the library has it.
pub(super) fn token(address: u64) -> H5O_token_t {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    // SAFETY: a token is 16 bytes without invariants.
    unsafe { mem::transmute::<[u8; 16], H5O_token_t>(bytes) }
}

/// The token of an object, as its address; a file stands for its root.
pub(super) fn token_of(object: &Identifier) -> Outcome<u64> {
    let mut info = mem::MaybeUninit::<H5O_info2_t>::zeroed();
    // SAFETY: the handle is an object, and there is room for the answer.
    check(unsafe { H5Oget_info3(object.id(), info.as_mut_ptr(), H5O_INFO_BASIC) })?;
    // SAFETY: filled in by the call, with kinds of objects that the crate knows.
    Ok(address(unsafe { info.assume_init() }.token))
}

/// The address in a token.
fn address(token: H5O_token_t) -> u64 {
    // SAFETY: a token is 16 bytes without invariants.
    let [a, b, c, d, e, f, g, h, ..] = unsafe { mem::transmute::<H5O_token_t, [u8; 16]>(token) };
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}
