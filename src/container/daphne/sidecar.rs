//! The metadata file that the program writes beside each file: `NAME.dbdf.meta`, JSON.
//!
//! Only its value type is used, to tell the two forms apart where the file itself cannot. One that is
//! missing, too long or not understood says nothing.

use std::ffi::OsString;
use std::path::Path;

use crate::source::Store;

const MOST: u64 = 64 << 10;

/// `valueType` of the file that belongs to `path`.
pub(super) fn value_type(store: &dyn Store, path: &Path) -> Option<String> {
    let mut name = OsString::from(path);
    name.push(".meta");
    let source = store.open(Path::new(&name)).ok()?;
    if source.len() > MOST {
        return None;
    }
    let mut text = vec![0; source.len() as usize];
    source.fetch_one(0, &mut text).ok()?;
    let json: serde_json::Value = serde_json::from_slice(&text).ok()?;
    json.get("valueType")?.as_str().map(str::to_owned)
}
