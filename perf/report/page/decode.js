// This file reads the columns that perf/report/html_report.cpp wrote, and builds the tasks from them.

function integers(text) {
  const letters = atob(text);
  let count = 0;
  for (let i = 0; i < letters.length; ++i) if (letters.charCodeAt(i) < 128) ++count;
  const numbers = new Float64Array(count);
  let value = 0, scale = 1, n = 0;
  for (let i = 0; i < letters.length; ++i) {
    const byte = letters.charCodeAt(i);
    value += (byte & 127) * scale;
    if (byte & 128) {
      scale *= 128;  // no shifts: they end at 32 bits
      continue;
    }
    numbers[n++] = value % 2 ? -(value + 1) / 2 : value / 2;
    value = 0;
    scale = 1;
  }
  return numbers;
}

function running(numbers) {
  for (let i = 1; i < numbers.length; ++i) numbers[i] += numbers[i - 1];
  return numbers;
}

function plus(numbers, others) {
  for (let i = 0; i < numbers.length; ++i) numbers[i] += others[i];
  return numbers;
}

// Reads the tasks. Their times are nanoseconds since the begin of the trace.
function readTasks(columns) {
  const tasks = { count: columns.count, kinds: columns.kinds };
  for (const name of ["kind", "worker", "slice", "group", "predicted"])
    tasks[name] = Int32Array.from(integers(columns[name]));
  tasks.predicted = integers(columns.predicted);
  tasks.iteration = running(integers(columns.iteration));
  let before = tasks.submitted = running(integers(columns.submitted));
  for (const name of ["ready", "pop_start", "popped", "fetch_start", "fetch_end", "start", "end", "released"])
    before = tasks[name] = plus(integers(columns[name]), before);

  // Task i waited for the tasks waitedFor[firstWait[i]] .. waitedFor[firstWait[i + 1] - 1].
  const counts = integers(columns.waits), back = integers(columns.before);
  tasks.firstWait = new Uint32Array(tasks.count + 1);
  tasks.waitedFor = new Uint32Array(back.length);
  for (let i = 0, n = 0; i < tasks.count; ++i) {
    for (let k = 0; k < counts[i]; ++k, ++n) tasks.waitedFor[n] = i - back[n];
    tasks.firstWait[i + 1] = n;
  }
  return tasks;
}

function before(tasks, i) {
  return tasks.waitedFor.subarray(tasks.firstWait[i], tasks.firstWait[i + 1]);
}

// Returns the tasks that waited for task i. They are searched for only when somebody asks.
function after(tasks, i) {
  const found = [];
  for (let n = tasks.firstWait[i + 1]; n < tasks.waitedFor.length; ++n)
    if (tasks.waitedFor[n] === i) found.push(firstWhere(i, tasks.count, j => tasks.firstWait[j + 1] > n));
  return found;
}

function readTrace(data) {
  const trace = data;
  trace.tasks = readTasks(data.tasks);
  for (const name of ["waits", "transfers"]) {
    const columns = data[name];
    for (const key in columns) columns[key] = integers(columns[key]);
    running(columns.from);
  }
  const iterations = data.iterations;
  iterations.rank = integers(iterations.rank);
  iterations.iteration = running(integers(iterations.iteration));
  iterations.at = running(integers(iterations.at));
  for (const counter of data.counters) counter.at = running(integers(counter.at));
  data.limits.path = running(integers(data.limits.path));
  return trace;
}
