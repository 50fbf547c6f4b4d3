//! Limits that keep one peer from using up the process.

use std::time::Duration;

/// Limits of one connection, the same for servers and clients.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Largest total-length word that is accepted, in bytes. Java's limit is 16 MiB; ours has slack for the header.
    pub frame_bytes_max: usize,
    /// Deepest nesting of objects and arrays in a JSON header.
    pub header_depth_max: usize,
    /// Most ext fields in one header.
    pub header_fields_max: usize,
    /// Requests of one connection that may be unanswered (parked ones not counted) before reading pauses.
    pub in_flight_max: usize,
    /// Bytes of frames of unanswered requests (parked ones not counted) before reading pauses.
    pub in_flight_bytes_max: usize,
    /// Answer bytes waiting to be written before reading pauses.
    pub outbound_pause_bytes: usize,
    /// Answer bytes waiting to be written at which the connection is cut.
    pub outbound_cut_bytes: usize,
    /// A peer that takes nothing of what waits for it for this long is cut.
    pub write_stall: Duration,
    /// A connection without reads and writes for this long is closed.
    pub idle: Duration,
    /// Calls of ours that may wait for an answer on one connection.
    pub calls_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame_bytes_max: 16 * 1024 * 1024 + 64 * 1024,
            header_depth_max: 16,
            header_fields_max: 1024,
            in_flight_max: 4096,
            in_flight_bytes_max: 64 * 1024 * 1024,
            outbound_pause_bytes: 1024 * 1024,
            outbound_cut_bytes: 64 * 1024 * 1024,
            write_stall: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            calls_max: 1024,
        }
    }
}
