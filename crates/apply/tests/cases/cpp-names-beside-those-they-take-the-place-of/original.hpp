#pragma once

namespace flow {

class Flow;
class FlowRecorder;
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
