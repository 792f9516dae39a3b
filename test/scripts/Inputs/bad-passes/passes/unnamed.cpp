// The pass unnamed.
