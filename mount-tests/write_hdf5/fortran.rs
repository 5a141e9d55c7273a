//! An old Fortran program that knows raw binaries alone, pointed at a NetCDF variable and at a
//! dataset of a compressed HDF5 file; every Python tool reads what it wrote.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{commit, state};
use crate::harness::place::Place;
use crate::harness::process::run;
use crate::harness::python::script;
use crate::harness::scratch_directory;
use crate::harness::tools::tool;

/// Reads the whole file as a stream, then writes single values, and records of direct access.
const PROGRAM: &str = "
program scale
  implicit none
  character(len=4096) :: path
  integer :: bytes, n, unit
  real(4), allocatable :: values(:)
  real(4) :: last(2)
  call get_command_argument(1, path)
  inquire(file=trim(path), size=bytes)
  n = bytes / 4
  allocate(values(n))
  open(newunit=unit, file=trim(path), access='stream', form='unformatted', status='old', action='readwrite')
  read(unit) values
  values = values * 2.0
  write(unit, pos=1) values
  write(unit, pos=4*3+1) -1.5
  close(unit)
  open(newunit=unit, file=trim(path), access='direct', recl=8, form='unformatted', status='old', action='readwrite')
  read(unit, rec=n/2) last
  write(unit, rec=n/2) last + 100.0
  close(unit)
end program
";

fn compiled() -> Option<(TempDir, PathBuf)> {
    let compiler = tool("gfortran")?;
    let directory = scratch_directory();
    let [source, program] = ["scale.f90", "scale"].map(|name| directory.path().join(name));
    std::fs::write(&source, PROGRAM).unwrap();
    run(Command::new(compiler).arg("-o").args([&program, &source])).success();
    Some((directory, program))
}

#[test]
fn a_fortran_program_writes_to_variables_and_datasets() {
    let Some((_directory, program)) = compiled() else {
        return;
    };
    for options in [&["commit=replace"], &["commit=inplace"]] {
        let place = Place::mounted(options);
        let stored = |name: &str| place.stored(name);
        for (file, array) in [("x.h5", "values"), ("model.nc", "t2m"), ("old.nc", "t2m")] {
            let stored = stored(file);
            script("write_hdf5/fortran.py", [Path::new("make"), &stored]).success();
            run(Command::new(&program).arg(place.join(file).join(array))).success();
        }
        commit(&place);
        assert_eq!(state(&place), "clean");
        for file in ["x.h5", "model.nc", "old.nc"] {
            script("write_hdf5/fortran.py", [Path::new("check"), &stored(file)]).success();
        }
    }
}
