#pragma once

namespace flow {

class Flow;
class FlowRecorder;
class FlowOptimizerBase;
class FlowLinearOptimizer;
class FlowSequentialOptimizer;

class FlowRecorderBase;
class RecordingBase;
class LinearRecording;
class SequentialRecording;

// ----------------------------------------------------------------------------
// queues
// ----------------------------------------------------------------------------
class Queue;
class QueueBase;

}
