//! The header of a `.npy` file: what `views/<array>.npy` has before the array's own bytes.
//!
//! Format version 1.0 (2.0 when the header is long), padded so that the data start at a multiple of
//! 64: `numpy.load(..., mmap_mode="r")` maps them in place.

use super::dtype::Dtype;
use super::fixed_text::{FixedText, TextEncoding};
use super::{Info, Order};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
const ALIGN: usize = 64;

/// The header for an array. Text that is not of one width ([`text_header`]) is offered as its
/// bytes.
pub fn header(info: &Info) -> Vec<u8> {
    let shape = match info.dtype {
        Dtype::Text => tuple(&[info.bytes]),
        _ => tuple(&info.shape),
    };
    let fortran = if info.order == Order::Fortran {
        "True"
    } else {
        "False"
    };
    let descr = info.dtype.npy_descr();
    frame(&format!(
        "{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"
    ))
}

/// The header for the values of a text, all of one width.
pub fn text_header(form: &FixedText) -> Vec<u8> {
    let kind = match form.encoding {
        TextEncoding::Bytes => "|S",
        TextEncoding::Unicode => "<U",
    };
    let (width, shape) = (form.width, tuple(&form.shape));
    frame(&format!(
        "{{'descr': '{kind}{width}', 'fortran_order': False, 'shape': {shape}, }}"
    ))
}

fn tuple(shape: &[u64]) -> String {
    match shape {
        [one] => format!("({one},)"),
        all => {
            let parts: Vec<String> = all.iter().map(u64::to_string).collect();
            format!("({})", parts.join(", "))
        }
    }
}

fn frame(text: &str) -> Vec<u8> {
    let (version, length_bytes) = if text.len() + ALIGN < 65536 {
        (1u8, 2)
    } else {
        (2u8, 4)
    };
    let before = MAGIC.len() + 2 + length_bytes;
    let total = (before + text.len() + 1).next_multiple_of(ALIGN);
    let length = (total - before) as u32;
    let mut header = Vec::with_capacity(total);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&[version, 0]);
    header.extend_from_slice(&length.to_le_bytes()[..length_bytes]);
    header.extend_from_slice(text.as_bytes());
    header.resize(total - 1, b' ');
    header.push(b'\n');
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(shape: &[u64], order: Order) -> Info {
        Info {
            dtype: Dtype::F64,
            shape: shape.to_vec(),
            order,
            bytes: shape.iter().product::<u64>() * 8,
            stored_bytes: 0,
            blocks: 1,
            codec: "".into(),
        }
    }

    #[test]
    fn header_is_what_numpy_writes() {
        let header = header(&info(&[38, 20], Order::Fortran));
        assert_eq!(header.len() % 64, 0);
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let text = std::str::from_utf8(&header[10..]).unwrap();
        assert!(text.starts_with("{'descr': '<f8', 'fortran_order': True, 'shape': (38, 20), }"));
        assert!(text.ends_with(" \n"));
    }

    #[test]
    fn tuples_are_python_tuples() {
        assert_eq!(tuple(&[]), "()");
        assert_eq!(tuple(&[7]), "(7,)");
        assert_eq!(tuple(&[0, 3]), "(0, 3)");
    }

    #[test]
    fn a_long_header_takes_version_2() {
        let header = frame(&"x".repeat(70_000));
        assert_eq!(&header[6..8], &[2, 0]);
        assert_eq!(header.len() % 64, 0);
    }
}
