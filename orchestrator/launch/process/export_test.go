package process

// Pause is pause.
var Pause = pause
