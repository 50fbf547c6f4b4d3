//! One test for each store that a stock broker wrote.

use tests::fixture;
use tests::stock::Version::{V4, V5};

use crate::life::live;

#[test]
fn fixture_a_dledger_clean() {
    live(fixture::A, &[V4]);
}

#[test]
fn fixture_b_dledger_killed() {
    live(fixture::B, &[V4]);
}

#[test]
fn fixture_c_dledger_5x() {
    live(fixture::C, &[V5]);
}

#[test]
fn fixture_e_plain_upgraded_by_us() {
    live(fixture::E, &[V4, V5]);
}

#[test]
fn fixture_g_plain_killed_upgraded_by_us() {
    live(fixture::G, &[V4]);
}

#[test]
fn fixture_h_upgraded_by_java() {
    live(fixture::H, &[V4]);
}

#[test]
fn fixture_l0_plain_front_expired_upgraded_by_us() {
    live(fixture::L0, &[V4]);
}

#[test]
fn fixture_l_front_expired_upgraded_by_java() {
    live(fixture::L, &[V4]);
}
