//! Files built by hand: every version, fixed and record variables, cut and damaged ones.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::header;
use super::sample::{Built, File, open};
use crate::array::Piece;
use crate::array::uncached::{read, read_all};
use crate::container::Container;

fn faults(container: &Container) -> Vec<String> {
    container
        .faults
        .iter()
        .map(|fault| fault.to_string())
        .collect()
}

#[test]
fn variables_are_shown_little_endian_with_their_types() {
    let file = File::new(5, 3, &[0, 4])
        .with("a", 10, &[1])
        .with("b", 2, &[0, 1])
        .with("c", 6, &[]);
    let Built { bytes, shown, .. } = file.build();
    let (_directory, container) = open(&bytes);
    assert_eq!((container.format, &*container.version), ("netcdf", "CDF-5"));
    assert_eq!(faults(&container), [""; 0]);
    let info: Vec<_> = container
        .arrays
        .iter()
        .map(|array| array.info().unwrap())
        .collect();
    assert_eq!(info[0].dtype.name(), "int64");
    assert_eq!(info[1].dtype.name(), "|S1");
    assert_eq!(
        (&info[1].shape[..], &info[2].shape[..]),
        (&[3, 4][..], &[][..])
    );
    for (array, shown) in container.arrays.iter().zip(&shown) {
        assert_eq!(&read_all(&**array).unwrap(), shown);
    }
    let dims = ["d0", "d1"].map(|name| Some(name.to_owned()));
    assert_eq!(container.details["b"].dims, dims);
}

#[test]
fn a_single_record_variable_is_not_padded() {
    let Built { bytes, shown, .. } = File::new(1, 9, &[0]).with("a", 1, &[0]).build();
    let (_directory, container) = open(&bytes);
    assert_eq!(read_all(&*container.arrays[0]).unwrap(), shown[0]);
    let pieces = &mut Vec::new();
    container.arrays[0].pieces(0..9, pieces).unwrap();
    assert_eq!(pieces[..], [Piece::Direct { at: 0, take: 9 }]);
}

#[test]
fn a_stream_has_the_records_that_the_file_holds() {
    for variables in 1..3 {
        let mut file = File::new(2, 5, &[0]);
        for number in 0..variables {
            file = file.with(&format!("v{number}"), 3, &[0]);
        }
        let mut bytes = file.build().bytes;
        bytes[4..8].fill(0xff);
        let (_directory, container) = open(&bytes);
        assert_eq!(faults(&container), [""; 0]);
        assert_eq!(container.arrays[0].info().unwrap().shape, [5]);
        let (_directory, container) = open(&bytes[..bytes.len() - 4]);
        let records = if variables == 1 { 3 } else { 4 };
        assert_eq!(container.arrays[0].info().unwrap().shape, [records]);
    }
}

#[test]
fn variables_that_lie_over_each_other_are_told() {
    let message = |bytes: &[u8]| faults(&open(bytes).1).join("; ");
    let fixed = File::new(1, 0, &[2]).with("a", 4, &[0]).with("b", 4, &[0]);
    let Built { mut bytes, .. } = fixed.build();
    assert_eq!(message(&bytes), "");
    // The last word of the header is where the last variable begins.
    let header = fixed.build().header;
    bytes[header - 1] -= 4;
    assert!(message(&bytes).contains("b: the variable lies over the bytes of a"));
    let records = File::new(1, 3, &[0]).with("a", 4, &[0]).with("b", 4, &[0]);
    let Built { mut bytes, .. } = records.build();
    assert_eq!(message(&bytes), "");
    bytes[header - 1] -= 4;
    assert!(message(&bytes).contains("lies over"));
    bytes[header - 1] += 8;
    assert!(message(&bytes).contains("lies over"));
}

#[test]
fn a_cut_file_is_readable_up_to_the_cut() {
    for records in [0, 6] {
        let mut file = File::new(2, records, &[0, 100]).with("a", 4, &[1]);
        if records > 0 {
            file = file.with("b", 4, &[0]).with("c", 4, &[0]);
        }
        let Built { bytes, shown, .. } = file.build();
        let (_directory, container) = open(&bytes[..bytes.len() - 12]);
        let last = container.arrays.len() - 1;
        let message = faults(&container);
        assert!(
            message[0].contains("ends after the end of the file"),
            "{message:?}"
        );
        let array = &*container.arrays[last];
        assert_eq!(array.info().unwrap().bytes, shown[last].len() as u64);
        let good = if records == 0 { 388 } else { 16 };
        assert_eq!(read(array, 0..good).unwrap(), shown[last][..good as usize]);
        assert!(read(array, good..good + 1).is_err());
        assert!(read_all(array).is_err());
    }
}

#[test]
fn a_variable_of_any_claimed_size_is_surveyed_in_no_time() {
    let mut file = File::new(5, 0, &[1 << 59]).with("a", 10, &[]);
    file.variables[0].dimensions = vec![];
    let mut bytes = file.build().bytes;
    // The rank and the dimension of the variable come after its name.
    let at = bytes.len() - 8 - (8 + 8 + 4 + 12) - 8;
    bytes[at..at + 8].copy_from_slice(&1u64.to_be_bytes());
    bytes.splice(at + 8..at + 8, 0u64.to_be_bytes());
    let (_directory, container) = open(&bytes);
    let array = &container.arrays[0];
    assert_eq!(array.info().unwrap().bytes, 1 << 62);
    let mut visited = 0;
    array.survey(&mut |piece| visited += piece.take()).unwrap();
    assert!(visited <= bytes.len() as u64);
    assert_eq!(container.faults.len(), 2, "{:?}", faults(&container));
}

#[test]
fn broken_variables_do_not_hide_the_others() {
    let file = File::new(1, 2, &[0, 3, 5])
        .with("good", 4, &[1])
        .with("type", 7, &[1])
        .with("record", 4, &[0])
        .with("late", 4, &[1, 0]);
    let Built { bytes, shown, .. } = file.build();
    let (_directory, container) = open(&bytes);
    let unreadable: Vec<&str> = container.unreadable.iter().map(|u| &*u.name).collect();
    assert_eq!(unreadable, ["type", "late"]);
    assert_eq!(container.faults.len(), 2);
    assert_eq!(container.arrays.len(), 2);
    assert_eq!(read_all(&*container.arrays[0]).unwrap(), shown[0]);
}

#[test]
fn only_a_descriptor_makes_a_binsparse_container() {
    let mut file = File::new(5, 0, &[7])
        .with("values", 7, &[0])
        .with("indices_0", 7, &[0]);
    let (_directory, container) = open(&file.build().bytes);
    assert_eq!(container.format, "netcdf");
    assert_eq!(faults(&container), [""; 0]);

    let text = r#"{"binsparse": {"version": "0.1", "format": "CVEC", "shape": [300],
        "number_of_stored_values": 7, "data_types": {"values": "bint8", "indices_0": "uint8"}}}"#;
    file.descriptor = Some(text.into());
    let (_directory, container) = open(&file.build().bytes);
    assert_eq!(
        (container.format, &*container.version),
        ("binsparse", "0.1")
    );
    assert_eq!(faults(&container), [""; 0]);
    // It is an array, for it can be written.
    let line = &container.lines[0];
    assert_eq!((line.name(), container.texts.len()), ("binsparse.json", 0));
    assert_eq!(read_all(&**line).unwrap(), text.as_bytes());
    assert_eq!(container.checks.len(), 1);
}

/// As the NetCDF library reads them, for which a name is a C string.
#[test]
fn names_end_at_their_first_nul() {
    for behind in ["", "\0", "\0\0\0", "\0garbage"] {
        let mut file = File::new(1, 0, &[3]).with(&format!("a{behind}"), 4, &[0]);
        file.behind_names = behind;
        file.descriptor = Some("{}".into());
        let Built { bytes, shown, .. } = file.build();
        let (_directory, container) = open(&bytes);
        assert_eq!(container.format, "binsparse", "{behind:?}");
        assert_eq!(container.arrays[0].name(), "a");
        assert_eq!(read_all(&*container.arrays[0]).unwrap(), shown[0]);
        assert_eq!(container.details["a"].dims, [Some("d0".to_owned())]);
    }
    let file = File::new(5, 0, &[3]).with("a", 4, &[0]);
    let file = file.with("a\0", 4, &[0]).with("\0", 4, &[0]);
    let (_directory, container) = open(&file.build().bytes);
    let names: Vec<&str> = container.arrays.iter().map(|a| a.name()).collect();
    assert_eq!(
        names,
        ["a~0", "a~1", "~2"],
        "equal and empty names get numbers"
    );
}

#[test]
fn headers_that_cannot_be_are_refused() {
    let good = File::new(1, 0, &[3]).with("a", 4, &[0]).build().bytes;
    let changed = |at: usize, value: u32| {
        let mut bytes = good.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        bytes
    };
    let two_unlimited = File::new(1, 0, &[0, 0]).build().bytes;
    for bytes in [
        changed(8, 11),
        changed(8, 0),
        changed(12, 1 << 30),
        changed(16, 1 << 30),
        two_unlimited,
    ] {
        let (_directory, container) = open(&bytes);
        assert_eq!((container.arrays.len(), container.faults.len()), (0, 1));
    }
    for len in 0..good.len() - 12 {
        assert!(header::parse(&good[..len], len as u64).is_err());
    }
}

prop_compose! {
    fn file()(
        version in select(vec![1u8, 2, 5]),
        records in 0u64..300,
        extents in vec(select(vec![1u64, 2, 3, 7, 40, 1100]), 1..4),
        variables in vec((any::<bool>(), 1u32..12, vec(any::<Index>(), 0..2)), 0..6),
    ) -> File {
        let mut file = File::new(version, records, &[&[0], &extents[..]].concat());
        for (number, (record, code, dimensions)) in variables.into_iter().enumerate() {
            let code = if version == 5 { code } else { code.min(6) };
            let dimensions = dimensions.iter().map(|d| 1 + d.index(extents.len()) as u64);
            let dimensions: Vec<u64> = record.then_some(0).into_iter().chain(dimensions).collect();
            file = file.with(&format!("v{number}"), code, &dimensions);
        }
        file
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_range_of_every_variable_is_what_was_stored(
        file in file(),
        ranges in vec((any::<Index>(), any::<Index>()), 6),
    ) {
        let Built { bytes, shown, .. } = file.build();
        let (_directory, container) = open(&bytes);
        prop_assert_eq!(faults(&container), [""; 0]);
        for (array, shown) in container.arrays.iter().zip(&shown) {
            prop_assert_eq!(&read_all(&**array).unwrap(), shown);
            for (a, b) in &ranges {
                let (a, b) = (a.index(shown.len() + 1), b.index(shown.len() + 1));
                let range = a.min(b)..a.max(b);
                let got = read(&**array, range.start as u64..range.end as u64).unwrap();
                prop_assert_eq!(&got, &shown[range]);
            }
        }
    }

    #[test]
    fn a_cut_anywhere_spoils_only_what_it_takes(file in file(), cut in any::<Index>()) {
        let Built { bytes, shown, header } = file.build();
        let len = header + cut.index(bytes.len() - header + 1);
        let (_directory, container) = open(&bytes[..len]);
        for (array, shown) in container.arrays.iter().zip(&shown) {
            let whole = read_all(&**array);
            let message = container.faults.iter().any(|f| f.array.as_deref() == Some(array.name()));
            prop_assert_eq!(whole.is_err(), message);
            if let Ok(whole) = whole {
                prop_assert_eq!(&whole, shown);
            }
            array.survey(&mut |piece| {
                if let Piece::Direct { at, take } = piece {
                    assert!(array.read_direct(at, &mut vec![0; take as usize]).is_ok());
                }
            }).unwrap();
        }
    }

    #[test]
    fn no_damage_makes_it_panic(
        file in file(),
        damage in vec((any::<Index>(), select(vec![0u8, 1, 7, 127, 128, 255])), 1..8),
        whole in any::<bool>(),
    ) {
        let Built { mut bytes, header, .. } = file.build();
        for (at, byte) in damage {
            // Behind the version, so that most of it is still parsed.
            let at = 4 + at.index(header - 4);
            bytes[at] = byte;
        }
        if !whole {
            bytes.truncate(header);
        }
        let (_directory, container) = open(&bytes);
        for array in &container.arrays {
            let bytes = array.info().unwrap().bytes;
            let _ = read(&**array, 0..bytes.min(5000));
            let _ = read(&**array, bytes.saturating_sub(5000)..bytes);
            let mut visited = 0;
            array.survey(&mut |piece| visited += piece.take()).unwrap();
            prop_assert!(visited <= 1 << 30);
        }
    }
}
