//! LedgerMQ beside the real thing: stores that stock brokers wrote, stock brokers on stores that we wrote, stock
//! clients, tools and name servers.

mod corners;
mod fixtures;
mod handover;
mod life;
mod offline;
mod start;
