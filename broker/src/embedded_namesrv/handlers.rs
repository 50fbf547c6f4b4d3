//! One function a request.

use super::kv::ORDER_NAMESPACE;
use super::registration::{BrokerIdentity, Registration, parse_body};
use super::routes::{Owner, QueueData};
use super::settings::Refused;
use super::{NameServer, render};
use crate::tables::json::{Map, Node, parse};
use crate::tables::{DataVersion, now_ms};
use remoting::request_code as code;
use remoting::response_code::{NO_PERMISSION, QUERY_NOT_FOUND, SYSTEM_ERROR, TOPIC_NOT_EXIST};
use remoting::{Command, ExtFields, HeaderError, Response};

/// Where Java's remarks send the reader.
const FAQ: &str = "\nSee http://rocketmq.apache.org/docs/faq/ for further details.";
/// Bits of `topicSysFlag`.
const UNIT: i32 = 1;
const UNIT_SUB: i32 = 2;

impl NameServer {
    /// Answers a request that came over the connection `connection`.
    pub(super) fn handle(&self, request: &Command, connection: u64) -> Response {
        let answer = match request.code {
            code::GET_ROUTEINFO_BY_TOPIC => self.route(request),
            code::GET_BROKER_CLUSTER_INFO => Ok(self.cluster_info()),
            code::REGISTER_BROKER => self.register(request, connection),
            code::UNREGISTER_BROKER => self.unregister(request),
            code::QUERY_DATA_VERSION => self.query_version(request),
            code::BROKER_HEARTBEAT => self.heartbeat(request),
            code::GET_BROKER_MEMBER_GROUP => self.members(request),
            code::REGISTER_TOPIC_IN_NAMESRV => self.register_topic(request),
            code::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => Ok(self.topics(|r| r.topics())),
            code::GET_TOPICS_BY_CLUSTER => self.cluster_topics(request),
            code::GET_SYSTEM_TOPIC_LIST_FROM_NS => Ok(self.system_topics()),
            code::GET_UNIT_TOPIC_LIST => Ok(self.flagged(|f| f & UNIT != 0)),
            code::GET_HAS_UNIT_SUB_TOPIC_LIST => Ok(self.flagged(|f| f & UNIT_SUB != 0)),
            code::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => {
                Ok(self.flagged(|f| f & UNIT_SUB != 0 && f & UNIT == 0))
            }
            code::DELETE_TOPIC_IN_NAMESRV => self.delete_topic(request),
            code::WIPE_WRITE_PERM_OF_BROKER => self.set_write(request, false),
            code::ADD_WRITE_PERM_OF_BROKER => self.set_write(request, true),
            code::PUT_KV_CONFIG
            | code::GET_KV_CONFIG
            | code::DELETE_KV_CONFIG
            | code::GET_KVLIST_BY_NAMESPACE => self.kv_request(request),
            code::UPDATE_NAMESRV_CONFIG => Ok(self.update_settings(request)),
            code::GET_NAMESRV_CONFIG => Ok(Response::ok().body(self.settings.print())),
            other => Ok(Response::unsupported(other)),
        };
        answer.unwrap_or_else(|error| Response::error(SYSTEM_ERROR, error.to_string()))
    }

    fn route(&self, request: &Command) -> Result<Response, HeaderError> {
        let topic = request.ext.require("topic")?;
        let asked = request
            .ext
            .get_bool("acceptStandardJsonOnly")
            .unwrap_or(false);
        let standard = render::wants_standard(request.version, asked);
        let order = match self.settings.order_message_enable() {
            true => self.kv.get(ORDER_NAMESPACE, topic),
            false => None,
        };
        let body = render::route(&self.routes.lock(), topic, order.as_deref(), standard);
        Ok(body.map_or_else(
            || {
                let remark =
                    format!("No topic route info in name server for the topic: {topic}{FAQ}");
                Response::error(TOPIC_NOT_EXIST, remark)
            },
            |body| Response::ok().body(body),
        ))
    }

    fn cluster_info(&self) -> Response {
        Response::ok().body(render::cluster_info(&self.routes.lock()))
    }

    fn register(&self, request: &Command, connection: u64) -> Result<Response, HeaderError> {
        let identity = identity(&request.ext)?;
        let expected = request.ext.get_i32("bodyCrc32")?.unwrap_or(0);
        let actual = (crc32fast::hash(&request.body) & 0x7FFF_FFFF).cast_signed();
        if expected != 0 && expected != actual {
            return Ok(Response::error(SYSTEM_ERROR, "crc32 not match"));
        }
        let compressed = request.ext.get_bool("compressed").unwrap_or(false);
        let (version, topics) = match parse_body(&request.body, compressed) {
            Ok(parsed) => parsed,
            Err(problem) => return Ok(Response::error(SYSTEM_ERROR, problem)),
        };
        let registration = Registration {
            identity,
            ha_addr: request
                .ext
                .get("haServerAddr")
                .unwrap_or_default()
                .to_string(),
            timeout_ms: request.ext.get_i64("heartbeatTimeoutMillis")?,
            acting_master: request.ext.get_bool("enableActingMaster"),
            version,
            topics,
        };
        let hint =
            self.routes
                .lock()
                .register(&registration, Owner::Connection(connection), now_ms());
        let mut response = Response::ok().with_fields();
        if let Some(hint) = hint {
            response = response
                .field("haServerAddr", hint.ha_addr)
                .field("masterAddr", hint.addr);
        }
        Ok(match self.kv.table(ORDER_NAMESPACE) {
            Some(table) => response.body(table),
            None => response,
        })
    }

    fn unregister(&self, request: &Command) -> Result<Response, HeaderError> {
        self.routes.lock().unregister(&identity(&request.ext)?);
        Ok(Response::ok())
    }

    fn query_version(&self, request: &Command) -> Result<Response, HeaderError> {
        let asked = parse(&request.body).ok();
        let asked = asked
            .as_ref()
            .and_then(Node::as_map)
            .map_or(DataVersion::zero(), DataVersion::from_map);
        let known = self.routes.lock().touch(&identity(&request.ext)?, now_ms());
        let changed = known.as_ref().is_none_or(|known| !known.same_as(&asked));
        let response = Response::ok().field("changed", changed);
        Ok(match known {
            Some(known) => response.body(known.to_json()),
            None => response,
        })
    }

    fn heartbeat(&self, request: &Command) -> Result<Response, HeaderError> {
        let who = BrokerIdentity {
            id: request.ext.get_i64("brokerId")?.unwrap_or(0),
            ..names(&request.ext)?
        };
        self.routes.lock().touch(&who, now_ms());
        Ok(Response::ok())
    }

    fn members(&self, request: &Command) -> Result<Response, HeaderError> {
        let (cluster, name) = (
            request.ext.require("clusterName")?,
            request.ext.require("brokerName")?,
        );
        Ok(Response::ok().body(render::member_group(&self.routes.lock(), cluster, name)))
    }

    fn register_topic(&self, request: &Command) -> Result<Response, HeaderError> {
        let topic = request.ext.require("topic")?;
        let Ok(Node::Map(body)) = parse(&request.body) else {
            return Ok(Response::error(
                SYSTEM_ERROR,
                "the body is no TopicRouteData",
            ));
        };
        let queues = body
            .get("queueDatas")
            .and_then(Node::as_list)
            .into_iter()
            .flatten();
        let queues = queues.filter_map(|q| queue_data(q.as_map()?));
        self.routes.lock().add_queues(topic, queues.collect());
        Ok(Response::ok())
    }

    fn topics(&self, list: impl Fn(&super::Routes) -> Vec<&str>) -> Response {
        Response::ok().body(render::topic_list(&list(&self.routes.lock()), None))
    }

    fn flagged(&self, wanted: impl Fn(i32) -> bool) -> Response {
        self.topics(|routes| routes.topics_by_flag(&wanted))
    }

    fn cluster_topics(&self, request: &Command) -> Result<Response, HeaderError> {
        let cluster = request.ext.require("cluster")?;
        Ok(self.topics(|routes| routes.topics_of_cluster(cluster)))
    }

    fn system_topics(&self) -> Response {
        let routes = self.routes.lock();
        let mut names: Vec<&str> = routes.clusters().into_keys().collect();
        names.extend(routes.brokers().keys().map(String::as_str));
        Response::ok().body(render::topic_list(&names, routes.some_addr()))
    }

    fn delete_topic(&self, request: &Command) -> Result<Response, HeaderError> {
        let topic = request.ext.require("topic")?;
        self.routes
            .lock()
            .delete_topic(topic, request.ext.get("clusterName"));
        Ok(Response::ok())
    }

    fn set_write(&self, request: &Command, writable: bool) -> Result<Response, HeaderError> {
        let broker = request.ext.require("brokerName")?;
        let count = self.routes.lock().set_write(broker, writable);
        let field = if writable {
            "addTopicCount"
        } else {
            "wipeTopicCount"
        };
        Ok(Response::ok().field(field, i64::try_from(count).unwrap_or(i64::MAX)))
    }

    fn kv_request(&self, request: &Command) -> Result<Response, HeaderError> {
        let namespace = request.ext.require("namespace")?;
        if request.code == code::GET_KVLIST_BY_NAMESPACE {
            let none = || {
                Response::error(
                    QUERY_NOT_FOUND,
                    format!("No config item, Namespace: {namespace}"),
                )
            };
            return Ok(self
                .kv
                .table(namespace)
                .map_or_else(none, |table| Response::ok().body(table)));
        }
        let key = request.ext.require("key")?;
        match request.code {
            code::PUT_KV_CONFIG => {
                self.kv.put(namespace, key, request.ext.require("value")?);
                if namespace == ORDER_NAMESPACE {
                    self.tell_order_topic(key);
                }
                Ok(Response::ok())
            }
            code::DELETE_KV_CONFIG => {
                self.kv.delete(namespace, key);
                Ok(Response::ok())
            }
            _ => Ok(match self.kv.get(namespace, key) {
                Some(value) => Response::ok().field("value", value),
                None => {
                    let remark = format!("No config item, Namespace: {namespace} Key: {key}");
                    Response::error(QUERY_NOT_FOUND, remark).with_fields()
                }
            }),
        }
    }

    fn update_settings(&self, request: &Command) -> Response {
        match self.settings.update(&request.body) {
            Ok(()) => Response::ok(),
            Err(refused @ Refused::BlackListed) => {
                Response::error(NO_PERMISSION, refused.to_string())
            }
            Err(refused) => Response::error(SYSTEM_ERROR, refused.to_string()),
        }
    }
}

fn names(ext: &ExtFields) -> Result<BrokerIdentity, HeaderError> {
    Ok(BrokerIdentity {
        cluster: ext.require("clusterName")?.to_string(),
        name: ext.require("brokerName")?.to_string(),
        addr: ext.require("brokerAddr")?.to_string(),
        id: 0,
    })
}

fn identity(ext: &ExtFields) -> Result<BrokerIdentity, HeaderError> {
    Ok(BrokerIdentity {
        id: ext.require_i64("brokerId")?,
        ..names(ext)?
    })
}

fn queue_data(map: &Map) -> Option<(String, QueueData)> {
    let queue = QueueData {
        read_queues: map.i32("readQueueNums")?,
        write_queues: map.i32("writeQueueNums")?,
        perm: map.i32("perm")?,
        sys_flag: map.i32("topicSysFlag").unwrap_or(0),
    };
    Some((map.str("brokerName")?.to_string(), queue))
}
