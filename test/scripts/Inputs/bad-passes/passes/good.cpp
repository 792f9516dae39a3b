// The pass good.
