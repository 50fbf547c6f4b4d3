// Command client drives the Go client of RocketMQ for the end-to-end tests.
//
//	client send    -ns HOST:PORT -topic T [-count N] [-mode sync|async|oneway|batch] [-tag TAG] [-size BYTES]
//	client consume -ns HOST:PORT -topic T -expect N [-group G] [-expr "A || B"] [-orderly] [-wait SECONDS]
//
// Output is JSON lines: one a message, and a last one of type "done".
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	ns      = flag.String("ns", "127.0.0.1:9876", "name server")
	topic   = flag.String("topic", "GoTopic", "topic")
	group   = flag.String("group", "GoGroup", "group")
	count   = flag.Int("count", 10, "messages to send")
	mode    = flag.String("mode", "sync", "sync, async, oneway or batch")
	tag     = flag.String("tag", "", "tag")
	size    = flag.Int("size", 100, "body length")
	expect  = flag.Int("expect", 1, "messages to consume")
	expr    = flag.String("expr", "*", "tag expression")
	orderly = flag.Bool("orderly", false, "consume in order")
	wait    = flag.Int("wait", 60, "seconds")

	outLock sync.Mutex
	out     = json.NewEncoder(os.Stdout)
)

func put(line map[string]any) {
	outLock.Lock()
	defer outLock.Unlock()
	_ = out.Encode(line)
}

func message(i int) *primitive.Message {
	body := make([]byte, *size)
	for j := range body {
		body[j] = byte('a' + i%26)
	}
	copy(body, fmt.Sprintf("go-%d ", i))
	m := primitive.NewMessage(*topic, body)
	m.WithKeys([]string{fmt.Sprintf("go-%d", i)})
	if *tag != "" {
		m.WithTag(*tag)
	}
	return m
}

func result(kind string, r *primitive.SendResult) {
	line := map[string]any{"type": "send", "kind": kind, "status": "ONEWAY"}
	if r != nil {
		line["status"] = "CODE"
		if r.Status == primitive.SendOK {
			line["status"] = "SEND_OK"
		}
		line["msgId"] = r.MsgID
		line["offsetMsgId"] = r.OffsetMsgID
		line["queueOffset"] = r.QueueOffset
		line["queueId"] = r.MessageQueue.QueueId
	}
	put(line)
}

func send(ctx context.Context) error {
	p, err := rocketmq.NewProducer(producer.WithGroupName(*group), producer.WithRetry(2),
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{*ns})))
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	defer func() { _ = p.Shutdown() }()
	if *mode == "batch" {
		var all []*primitive.Message
		for i := 0; i < *count; i++ {
			all = append(all, message(i))
		}
		r, err := p.SendSync(ctx, all...)
		if err == nil {
			result("batch", r)
		}
		return err
	}
	var left sync.WaitGroup
	errs := make(chan error, *count)
	for i := 0; i < *count; i++ {
		switch *mode {
		case "oneway":
			if err = p.SendOneWay(ctx, message(i)); err == nil {
				result("oneway", nil)
			}
		case "async":
			left.Add(1)
			err = p.SendAsync(ctx, func(_ context.Context, r *primitive.SendResult, e error) {
				if e != nil {
					errs <- e
				} else {
					result("async", r)
				}
				left.Done()
			}, message(i))
		default:
			var r *primitive.SendResult
			if r, err = p.SendSync(ctx, message(i)); err == nil {
				result("sync", r)
			}
		}
		if err != nil {
			return err
		}
	}
	left.Wait()
	close(errs)
	return <-errs
}

func consume() error {
	c, err := rocketmq.NewPushConsumer(consumer.WithGroupName(*group), consumer.WithConsumerOrder(*orderly),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{*ns})))
	if err != nil {
		return err
	}
	seen := make(chan struct{}, 1<<16)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: *expr}
	err = c.Subscribe(*topic, selector, func(_ context.Context, all ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range all {
			put(map[string]any{"type": "consumed", "topic": m.Topic, "queueId": m.Queue.QueueId, "queueOffset": m.QueueOffset,
				"msgId": m.MsgId, "tags": m.GetTags(), "keys": m.GetKeys(), "bodyLen": len(m.Body), "offsetMsgId": m.OffsetMsgId})
			seen <- struct{}{}
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	if err = c.Start(); err != nil {
		return err
	}
	defer func() { _ = c.Shutdown() }()
	end := time.After(time.Duration(*wait) * time.Second)
	for n := 0; n < *expect; n++ {
		select {
		case <-seen:
		case <-end:
			return fmt.Errorf("consumed %d of %d", n, *expect)
		}
	}
	return nil
}

func main() {
	rlog.SetLogLevel("error")
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: client send|consume -ns HOST:PORT …")
		os.Exit(2)
	}
	_ = flag.CommandLine.Parse(os.Args[2:])
	var err error
	switch os.Args[1] {
	case "send":
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*wait)*time.Second)
		defer cancel()
		err = send(ctx)
	case "consume":
		err = consume()
	default:
		err = fmt.Errorf("no such command: %s", os.Args[1])
	}
	line := map[string]any{"type": "done", "ok": err == nil}
	if err != nil {
		line["error"] = err.Error()
	}
	put(line)
	if err != nil {
		os.Exit(1)
	}
}
