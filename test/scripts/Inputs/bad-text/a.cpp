int noComment = 1; // TODO: say what this is
