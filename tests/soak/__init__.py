"""Commands in a loop in one process, whose memory and open files must not grow."""
