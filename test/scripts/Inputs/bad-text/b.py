# Reads a file of one machine.
open("/work/data/x")
open("here/work/x")
