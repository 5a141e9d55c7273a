//! Stores that are made up here. Used by no other module.
