// The pass no_test.
