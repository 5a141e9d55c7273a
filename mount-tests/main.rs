//! What only a real mount or a second process can prove: one module per concern.
//!
//! Every test starts its own daemon on its own directories, so they run side by side. Containers
//! come from the golden corpus (`golden/`) or are written here with known content from seeded
//! generators.

mod acl;
mod attributes;
mod blosc_chunks;
mod change;
mod cli;
mod corrupt;
mod daemon;
mod few_descriptors;
mod foreign_logs;
mod full_disk;
mod golden;
mod harness;
mod hdf5;
mod hdf5_content;
mod hdf5_structure;
mod how_stored;
mod killed_daemon;
mod life_cycle;
mod listing;
mod many;
mod memory;
mod model;
mod names;
mod not_shown;
mod oracles;
mod outside;
mod pack;
mod pack_interrupted;
mod pack_tree;
mod paths_in_mounts;
mod permissions;
mod posix;
mod programs;
mod readahead;
mod reading;
mod replaced;
mod requests;
mod rights;
mod scratch;
mod show;
mod stored;
mod structure;
mod system_log;
mod tree;
mod who_writes;
mod worker;
mod write_bloscpack;
mod write_bpcells;
mod write_daphne;
mod write_hdf5;
mod write_netcdf;
mod writing;
