//! The broker process: what is started in which order, and stopped in the reverse one.

mod progress;
mod tasks;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use dledger::fs::{Fs, RealFs};
use parking_lot::Mutex;
use remoting::{Dispatch, Limits, Server, ServerConfig};
use tokio::time::timeout;

use crate::config::{BrokerConfig, Loaded, Settings};
use crate::embedded_namesrv::NameServer;
use crate::namesrv::Registrar;
use crate::processor::{Port, Router};
use crate::service::{Broker, Parts};
use crate::stats::BrokerStats;
use crate::store::{MessageStore, Opened, OpeningError};
use crate::tables::{ConsumerOffsets, GroupTable, TableError, TopicTable};

pub use progress::show as show_progress;
use tasks::Tasks;

/// Pulls that may wait for messages at the same time.
const HELD_PULLS_MAX: usize = 200_000;

/// How long name servers may take to hear that the broker goes.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long requests that are under way may take to be answered when the broker goes.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the tables may take to be written when the broker goes.
const TABLES_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a broker does not start. Each reads as one line, refusals of a store as several.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken, or may not be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The own address is not known.
    #[error("brokerIP1 cannot be resolved: {0}")]
    Address(std::io::Error),
    /// A table in `config/` cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] OpeningError),
    /// Something failed that should not.
    #[error("starting failed: {0}")]
    Internal(String),
}

/// What did not go well while stopping; the store is then marked as not stopped cleanly.
#[derive(Debug, thiserror::Error)]
#[error("the broker stopped, but not cleanly: {0}")]
pub struct StopError(String);

/// A running broker.
pub struct App {
    broker: Arc<Broker>,
    store: Arc<MessageStore>,
    store_tasks: crate::store::Running,
    servers: Vec<Server>,
    namesrv: Option<Server>,
    registrar: Arc<Mutex<Option<Registrar>>>,
    tasks: Tasks,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("addr", &self.local_addr())
            .finish_non_exhaustive()
    }
}

/// The tables of a broker.
struct Tables {
    topics: Arc<TopicTable>,
    groups: Arc<GroupTable>,
    offsets: Arc<ConsumerOffsets>,
}

impl Tables {
    fn open(fs: &Arc<dyn Fs>, config: &BrokerConfig) -> Result<Self, TableError> {
        let dir = config.config_dir();
        Ok(Tables {
            topics: Arc::new(TopicTable::open(fs.clone(), &dir, config)?),
            groups: Arc::new(GroupTable::open(fs.clone(), &dir)?),
            offsets: Arc::new(ConsumerOffsets::open(fs.clone(), &dir)?),
        })
    }
}

impl App {
    /// Starts a broker: when this returns it serves. Nothing of the store is changed before it is
    /// certain that the ports are free, that no other broker has the store, and that it is sound.
    pub async fn start(loaded: Loaded) -> Result<Self, StartError> {
        let settings = Arc::new(Settings::new(loaded));
        let config = settings.get();
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        let store_host = config.store_host().map_err(StartError::Address)?;
        ports_are_free(&config)?;
        let tables_of = (fs.clone(), config.clone());
        let (opened, tables) = tokio::task::spawn_blocking(move || {
            let (fs, config) = tables_of;
            let opened = Opened::examine(fs.clone(), &config, &show_progress())?;
            opened.report();
            Ok::<_, StartError>((opened, Tables::open(&fs, &config)?))
        })
        .await
        .map_err(|error| StartError::Internal(error.to_string()))??;

        let waker = Arc::new(tasks::PullWaker::new(HELD_PULLS_MAX));
        let store = opened
            .open(
                &config,
                tables.topics.clone(),
                waker.clone(),
                show_progress(),
            )
            .await?;
        let store = Arc::new(store);
        let name_server = config
            .embedded_namesrv_enable
            .then(|| NameServer::open(fs, &config.config_dir(), config.embedded_namesrv_addr()))
            .transpose()?
            .map(Arc::new);
        let registrar =
            Registrar::start(settings.clone(), tables.topics.clone(), name_server.clone());
        let registrar = Arc::new(Mutex::new(Some(registrar)));
        let stats = Arc::new(BrokerStats::new(&config.broker_cluster_name));
        let broker = Broker::new(Parts {
            settings: settings.clone(),
            store: store.clone(),
            topics: tables.topics,
            groups: tables.groups,
            offsets: tables.offsets,
            holds: waker.holds().clone(),
            stats,
            refresh_registration: refresh(&registrar),
            store_host,
        });
        waker.serve(&broker);
        let store_tasks = store.run(&settings);
        let tasks = Tasks::spawn(&broker, name_server.as_ref(), &config);
        let app = App {
            broker,
            store,
            store_tasks,
            servers: Vec::new(),
            namesrv: None,
            registrar,
            tasks,
        };
        app.listen(&config, name_server).await
    }

    /// Opens the ports, the last step of a start, and registers.
    async fn listen(
        mut self,
        config: &BrokerConfig,
        name_server: Option<Arc<NameServer>>,
    ) -> Result<Self, StartError> {
        if let Some(name_server) = name_server {
            let addr = config.embedded_namesrv_addr();
            self.namesrv = Some(bind("namesrv", addr, config, name_server).await?);
            tracing::info!(%addr, "embedded name server");
        }
        for (name, addr, port) in [
            ("broker", config.listen_addr(), Port::Main),
            ("fast", config.fast_listen_addr(), Port::Fast),
        ] {
            let router = Arc::new(Router::new(self.broker.clone(), port));
            self.servers.push(bind(name, addr, config, router).await?);
        }
        if let Some(registrar) = &*self.registrar.lock() {
            registrar.lead(0);
        }
        tracing::info!(
            broker = config.broker_name,
            cluster = config.broker_cluster_name,
            addr = %config.listen_addr(),
            registered_as = config.broker_addr(),
            term = self.store.log().status().term,
            "the broker serves"
        );
        Ok(self)
    }

    /// Address of the main port.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.servers.first().map(Server::local_addr)
    }

    /// Address of the fast port.
    pub fn fast_addr(&self) -> Option<SocketAddr> {
        self.servers.get(1).map(Server::local_addr)
    }

    /// The store, for tests and figures.
    pub fn store(&self) -> &Arc<MessageStore> {
        &self.store
    }

    /// Waits until the log can take nothing more, which is the end of this broker; says why.
    pub async fn until_poisoned(&self) -> Arc<str> {
        self.store.log().log().until_poisoned().await
    }

    /// Stops: unregisters, answers what is under way, writes the tables, dispatches the rest, syncs, and
    /// marks the store as cleanly stopped.
    pub async fn stop(self) -> Result<(), StopError> {
        tracing::info!("stopping");
        let registrar = self.registrar.lock().take();
        if let Some(registrar) = registrar {
            registrar.stop(UNREGISTER_TIMEOUT).await;
        }
        self.broker.release_pulls();
        let servers = self
            .servers
            .into_iter()
            .chain(self.namesrv)
            .map(|server| server.shutdown(DRAIN_TIMEOUT));
        let all: Vec<_> = servers.map(tokio::spawn).collect();
        for server in all {
            let _ = server.await;
        }
        let tables = timeout(TABLES_TIMEOUT, self.tasks.stop()).await;
        let store = self.store.close(self.store_tasks).await;
        store.map_err(|error| StopError(error.to_string()))?;
        tables.map_err(|_| {
            StopError("the tables in config/ could not be written in time".to_owned())
        })?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Asks the registrar, as long as there is one, to register everything anew.
fn refresh(registrar: &Arc<Mutex<Option<Registrar>>>) -> Box<dyn Fn() + Send + Sync> {
    let registrar = registrar.clone();
    Box::new(move || {
        if let Some(registrar) = &*registrar.lock() {
            registrar.refresh();
        }
    })
}

/// A taken port is found out before anything is changed.
fn ports_are_free(config: &BrokerConfig) -> Result<(), StartError> {
    let namesrv = config
        .embedded_namesrv_enable
        .then(|| config.embedded_namesrv_addr());
    for addr in [config.listen_addr(), config.fast_listen_addr()]
        .into_iter()
        .chain(namesrv)
    {
        TcpListener::bind(addr).map_err(|source| StartError::Listen { addr, source })?;
    }
    Ok(())
}

async fn bind(
    name: &'static str,
    addr: SocketAddr,
    config: &BrokerConfig,
    dispatch: Arc<dyn Dispatch>,
) -> Result<Server, StartError> {
    let idle = Duration::from_secs(config.server_channel_max_idle_time_seconds.max(1) as u64);
    let server = ServerConfig {
        name: name.into(),
        limits: Limits {
            idle,
            ..Limits::default()
        },
        backlog: config.server_socket_backlog.max(1),
        ..ServerConfig::default()
    };
    Server::bind(addr, server, dispatch)
        .await
        .map_err(|source| StartError::Listen { addr, source })
}
