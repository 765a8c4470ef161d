//! Every engine passes the whole suite.

argiope_testkit::engine_suite!(callbacks, Callbacks);
argiope_testkit::engine_suite!(coroutines, Coroutines);
