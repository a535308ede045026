// This program simulates iterations of a training that several nodes share, with StarPU-MPI over
// SMPI. The only argument is a file of numbers, which node_iterations.py writes and Node::Node
// reads. The first rank prints the simulated seconds at which each iteration's last forward task
// ended.
#include <starpu_mpi.h>  // SimGrid starts main() in an actor, under another name

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

namespace {

using Accesses = std::vector<starpu_data_descr>;

struct Layer {
  double forward = 0, backward = 0;            // us of one worker, for its share of the images
  std::vector<starpu_data_handle_t> shares{};  // workers' gradients, which are added up
  Accesses gradients{}, values{};              // of all parts
};

struct Part {
  std::size_t layer = 0, bytes = 0;
  int owner = 0;
  double sum = 0;  // us that adding another gradient takes
  starpu_data_handle_t gradient{}, values{};
  std::vector<starpu_data_handle_t> incoming{};  // of the owner, by rank
};

starpu_codelet codelet;
starpu_perfmodel model;
std::vector<double> times;  // s

void compute_nothing(void**, void*) {}
double cost(starpu_task* task, starpu_perfmodel_arch*, unsigned) { return task->flops; }
void note(void*) { times.push_back(1e-6 * starpu_timing_now()); }

// StarPU refuses tasks that take no time, so each task takes at least 0.01 us.
void submit(double microseconds, int priority, Accesses accesses,
            void (*callback)(void*) = nullptr) {
  starpu_task_insert(&codelet, STARPU_FLOPS, std::max(microseconds, 1e-2), STARPU_PRIORITY,
                     priority, STARPU_CALLBACK, callback, STARPU_DATA_MODE_ARRAY, accesses.data(),
                     static_cast<int>(accesses.size()), 0);
}

class Node {
 public:
  explicit Node(std::ifstream file) {
    starpu_mpi_comm_rank(MPI_COMM_WORLD, &rank_);
    starpu_mpi_comm_size(MPI_COMM_WORLD, &ranks_);
    std::size_t workers = 0, layers = 0, parts = 0, most = 0;
    file >> iterations_ >> workers >> layers >> parts >> most;
    memory_ = SMPI_SHARED_MALLOC(most);  // SMPI does not copy it
    for (std::size_t i = 0; i < workers; ++i) images_.push_back(data(sizeof(float)));
    layers_.resize(layers);
    for (Layer& layer : layers_) {
      file >> layer.forward >> layer.backward;
      for (std::size_t i = 0; i < workers; ++i) layer.shares.push_back(data(sizeof(float)));
    }
    parts_.resize(parts);
    for (Part& part : parts_) {
      file >> part.layer >> part.bytes >> part.owner >> part.sum;
      part.gradient = data(part.bytes);
      part.values = data(part.bytes);
      for (int rank = 0; part.owner == rank_ && rank < ranks_; ++rank)
        part.incoming.push_back(data(part.bytes));
      layers_[part.layer].gradients.push_back({part.gradient, STARPU_W});
      layers_[part.layer].values.push_back({part.values, STARPU_R});
    }
  }
  ~Node() {
    for (const starpu_data_handle_t each : data_) starpu_data_unregister(each);
  }

  void train() {
    for (int iteration = 0; iteration < iterations_; ++iteration) {
      for (const Layer& layer : layers_)
        for (const starpu_data_handle_t image : images_) {
          Accesses accesses = layer.values;
          accesses.push_back({image, STARPU_RW});
          const bool last = &layer == &layers_.back() && image == images_.back();
          submit(layer.forward, 0, accesses, last ? note : nullptr);
        }
      for (std::size_t at = layers_.size(); at-- > 0;) backward(at);
    }
    starpu_mpi_wait_for_all(MPI_COMM_WORLD);
    for (std::size_t i = 0; rank_ == 0 && i < times.size(); ++i) std::printf("%.9f\n", times[i]);
  }

 private:
  void backward(std::size_t at) {
    const Layer& layer = layers_[at];
    Accesses accesses = layer.gradients;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      submit(layer.backward, 1, {{images_[i], STARPU_RW}, {layer.shares[i], STARPU_W}});
      accesses.push_back({layer.shares[i], STARPU_R});
    }
    if (!layer.gradients.empty()) submit(0, 2, accesses);
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].layer == at) exchange(parts_[i], static_cast<starpu_mpi_tag_t>(2 * i));
  }

  // Each rank sends the gradient to the part's owner. The owner adds up the gradients, and sends
  // new values back.
  void exchange(const Part& part, starpu_mpi_tag_t tag) {
    if (part.owner != rank_) {
      starpu_mpi_isend_detached(part.gradient, part.owner, tag, MPI_COMM_WORLD, nullptr, nullptr);
      starpu_mpi_irecv_detached(part.values, part.owner, tag + 1, MPI_COMM_WORLD, nullptr, nullptr);
      return;
    }
    const auto in_any_order = static_cast<starpu_data_access_mode>(STARPU_RW | STARPU_COMMUTE);
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      const starpu_data_handle_t from = part.incoming[static_cast<std::size_t>(rank)];
      starpu_mpi_irecv_detached(from, rank, tag, MPI_COMM_WORLD, nullptr, nullptr);
      submit(part.sum, 2, {{part.gradient, in_any_order}, {from, STARPU_R}});
    }
    submit(0, 2, {{part.gradient, STARPU_R}, {part.values, STARPU_W}});
    for (int rank = 0; rank < ranks_; ++rank)
      if (rank != rank_)
        starpu_mpi_isend_detached(part.values, rank, tag + 1, MPI_COMM_WORLD, nullptr, nullptr);
  }

  // All data share the same memory, because no task reads the values.
  starpu_data_handle_t data(std::size_t bytes) {
    starpu_vector_data_register(&data_.emplace_back(), STARPU_MAIN_RAM,
                                reinterpret_cast<uintptr_t>(memory_),
                                static_cast<uint32_t>(bytes / sizeof(float)), sizeof(float));
    return data_.back();
  }

  int rank_ = 0, ranks_ = 1, iterations_ = 0;
  void* memory_ = nullptr;
  std::vector<starpu_data_handle_t> data_{}, images_{};
  std::vector<Layer> layers_{};
  std::vector<Part> parts_{};
};

}  // namespace

int main(int count, char** arguments) {
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.sched_policy_name = "prio";
  if (starpu_mpi_init_conf(&count, &arguments, 1, MPI_COMM_WORLD, &conf) != 0) return 1;
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = compute_nothing;
  codelet.nbuffers = STARPU_VARIABLE_NBUFFERS;
  codelet.model = &model;
  model.type = STARPU_PER_ARCH;
  model.arch_cost_function = cost;
  model.symbol = "given";
  Node(std::ifstream(arguments[1])).train();
  starpu_mpi_shutdown();
  return 0;
}
