//! Every engine passes the whole suite.

argiope_testkit::engine_suite!(tokio, Tokio);
argiope_testkit::engine_suite!(coroutines, Coroutines);
argiope_testkit::engine_suite!(callbacks, Callbacks);
argiope_testkit::engine_suite!(threads, Threads);
argiope_testkit::engine_suite!(uring, Uring);
