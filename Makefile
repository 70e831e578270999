# Every target does its own set-up: a virtual environment in .venv with exactly what
# requirements.lock says (hashes included). PYTHON=python3.12 chooses another interpreter.
PYTHON ?= python3
DATA ?= var/hornbeam
CLUSTER ?= var/cluster
CUSTOMERS ?= 1000
SCALE ?= 0.01
SEEDS ?= 100
EXAMPLES ?= 1000
FUZZ_SEED ?= 1
FIRST_SEED ?= 1
TRANSACTIONS ?= 500
RUNS ?= 3
SEED ?= 1
# An interpreter that is named on the command line has an environment of its own.
VENV := $(if $(filter command%,$(origin PYTHON)),.venv-$(notdir $(PYTHON)),.venv)
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPARK := $(VENV)/.spark
PEERS := $(VENV)/.peers
SPEEDUPS := $(VENV)/.speedups
CARGO_TARGET_DIR ?= $(CURDIR)/speedups/target
export CARGO_TARGET_DIR

# Where cargo is, the suite runs with hornbeam-speedups, and these with Python, too (without a second cluster).
BOTH := tests/storage/test_storage_rows.py tests/storage/test_storage_snapshot.py tests/storage/test_storage_rocks.py \
  tests/storage/test_storage_hbase.py \
  tests/contract/test_table_store.py tests/contract/test_table_store_histories.py tests/query/test_columns.py \
  tests/query/test_engine.py tests/txlayer/test_transactions_verify.py tests/pipeline/test_pipeline_source.py

# Without compiled modules each process takes twice as long to start, and the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo speedups test-speedups demo-cluster images demo-compose demo-spark test test-long test-quick test-matrix check docs chart console-pictures postgres-answers catalogue-answers published sqllogic sim mutants models fuzz nemesis hostile serve cluster cluster-down bench bench-groups bench-groups-nodes bench-dashboard bench-totals bench-evaluation bench-subscribers bench-live bench-live-nodes bench-cluster bench-gateways bench-nodes bench-spark bench-spark-cluster bench-nations bench-peers lock clean

# A copy without symbolic links (a zip, core.symlinks=false) has files with their targets: `ln` restores them.
$(READY): requirements.lock pyproject.toml client/pyproject.toml
	@for it in $(filter-out %.py,$(wildcard src/hornbeam_server/*)); do test -d $$it || ln -sfn "$$(cat $$it)" $$it; done
	@$(PYTHON) -c 'import sys; sys.exit("Hornbeam needs Python 3.11 or newer; say which with: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep -o '^uv==[^ ]*' requirements.lock)"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip sync --quiet requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps -e client -e .
	@touch $@

$(SPARK): $(READY) requirements-spark.lock
	@echo "Adding Spark (460 MB)"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r requirements-spark.lock
	@touch $@

$(PEERS): $(READY) requirements-bench.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --require-hashes -r requirements-bench.lock
	@touch $@

$(SPEEDUPS): $(READY) $(wildcard speedups/src/*.rs) speedups/Cargo.toml speedups/Cargo.lock speedups/pyproject.toml
	@command -v cargo >/dev/null || { echo "hornbeam-speedups is built by cargo 1.88 or newer: install it from https://rustup.rs" >&2; exit 1; }
	@echo "Building hornbeam-speedups"
	@rm -rf $(VENV)/wheels
	@$(BIN)/uv build --quiet --wheel --python $(BIN)/python --out-dir $(VENV)/wheels speedups
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps --reinstall $(VENV)/wheels/hornbeam_speedups-*.whl
	@touch $@

speedups: $(SPEEDUPS)  ## build hornbeam-speedups, and install it into the virtual environment (needs cargo)

demo: $(READY)  ## TPC-W from schema to verified views
	@$(BIN)/hornbeam demo --data var/demo --replace --customers $(CUSTOMERS)

demo-cluster: $(READY)  ## the same on HBase with three nodes, two of which are killed (needs Java, Maven)
	@$(BIN)/python -m bench.cluster_demo

images: $(READY)  ## the images of docker/Dockerfile, by Docker or buildah; BASES=debian: on bases of Debian's packages
	@$(BIN)/python -m bench.images $(addprefix --bases ,$(BASES))

demo-compose: $(READY)  ## the main job in containers, two nodes are killed (needs a Docker engine with Compose, and make images)
	@$(BIN)/python -m bench.compose_demo

demo-spark: $(SPARK)  ## TPC-H while a writer writes: views built, kept and reconciled by Spark (needs Java): SCALE=0.1
	@$(BIN)/python -m bench.spark_demo --scale $(SCALE)

test: $(SPARK)  ## the whole suite, in JOBS=2 processes; installs the programs that it needs if it may
	@$(BIN)/python -m tests.programs
	@if command -v cargo >/dev/null; then $(MAKE) --no-print-directory speedups test-speedups; fi
	@$(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadscope --record-durations

test-speedups: $(SPEEDUPS)  ## the tests of hornbeam-speedups in Rust, and with Python what the suite runs with it
	@cd speedups && cargo test --quiet --release --locked
	@HORNBEAM_SPEEDUPS=python $(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadscope --without-cluster $(BOTH)

test-long: $(SPARK)  ## the whole suite with more random examples, seeds and repetitions: for a night, or before a release
	@$(BIN)/python -m tests.programs
	@$(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadscope --long --session-timeout 0 --timeout 3600

test-quick: $(READY)  ## the loop while working: tests that need nothing but Python; PYTHON=python3.13 for another one
	@$(BIN)/python -m pytest -n $(or $(JOBS),2) --dist loadscope --quick

test-matrix: $(READY)  ## the tests of HBase and HDFS on several versions (needs Java, Maven): VERSIONS="2.6.1/3.4.2 2.5.8/3.3.6"
	@$(BIN)/python -m tests.matrix $(if $(VERSIONS),--versions $(VERSIONS))

chart: $(READY)  ## check the Helm chart with Helm and Kubernetes' schemas
	@$(BIN)/uv run --quiet --no-project --with helm-python-sdk==0.2.2 --with kubernetes-validate==1.37.0 --with pyyaml python -m tests.chart

# Not --quiet: mkdocs then counts no warnings, and a page that is missing in the navigation passes.
docs: $(READY)  ## the documentation as a site, in var/site; fails for a link that leads nowhere
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

check: $(SPARK) docs  ## style, types, layers, dead code and dead files, links of the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture
	$(BIN)/python -m tests.dead_files
	$(BIN)/python -m tests.tidy
	$(BIN)/python -m tests.plain_words
	$(BIN)/python -m tests.settings_reference --check
	$(BIN)/python -m tests.postgres.reference --check
	@if command -v cargo >/dev/null; then cd speedups && cargo fmt --check && cargo clippy --quiet --release --locked --all-targets -- -D warnings; fi

postgres-answers: $(PEERS)  ## record PostgreSQL's answers to the corpus of tests/postgres (needs PostgreSQL)
	@$(BIN)/python -m tests.postgres.ask

catalogue-answers: $(PEERS)  ## record PostgreSQL's system catalog and its answers to clients' queries: DSN="host=… dbname=…" of a PostgreSQL 15 with tests/catalogue/schema.sql
	@$(BIN)/python -m tests.postgres.system_catalog "$(DSN)"
	@$(BIN)/python -m tests.catalogue.record "$(DSN)"

sqllogic: $(READY)  ## run the tests of DuckDB, SQLite, RisingLight, RisingWave, CockroachDB and PostgreSQL: CORPUS=DuckDB, ONLY=pattern
	@$(BIN)/python -m tests.sqllogic $(addprefix --corpus ,$(CORPUS)) $(addprefix --only ,$(ONLY))

console-pictures: $(READY)  ## screenshots of the console for the documentation, of a server of the demo's database: URL=http://127.0.0.1:8780
	@$(BIN)/python -m tests.console.screenshots $(or $(URL),http://127.0.0.1:8780)

published: $(PEERS)  ## import published files (Chinook, Northwind, Sakila, Employees) and compare with PostgreSQL: FILES="sakila pagila"
	@$(BIN)/python -m tests.published $(FILES) $(if $(FILES),,--write)

sim: $(READY)  ## simulate: SEEDS=100 FIRST_SEED=1, or MINUTES=60; WORKLOAD=, MIX=, NODES=, FOLLOW=1, TRANSACTIONS=
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.sim \
	  --seeds $(SEEDS) --first-seed $(FIRST_SEED) $(if $(MINUTES),--minutes $(MINUTES)) \
	  --transactions $(TRANSACTIONS) $(if $(JOBS),--jobs $(JOBS)) $(addprefix --workload ,$(WORKLOAD)) $(addprefix --mix ,$(MIX)) \
	  $(addprefix --nodes ,$(NODES)) $(if $(FOLLOW),--follow)

models: $(READY)  ## check the protocol's models exhaustively (needs spin and gcc)
	@$(BIN)/python -m tests.models.run

mutants: $(READY)  ## plant protocol bugs; the simulation must find each. MUTANT="boolean lock"
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.sim.mutants $(if $(MUTANT),--only "$(MUTANT)")

nemesis: $(READY)  ## strike a real cluster: RUNS=3, MINUTES=60, SEED=1, FAULT="kill ZooKeeper", THRIFT=1
	@$(BIN)/python -m tests.nemesis --runs $(RUNS) --seed $(SEED) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FAULT),--fault "$(FAULT)") \
	  $(addprefix --thrift ,$(THRIFT))

hostile: $(READY)  ## attack a server with hostile SQL: MINUTES=60 SEED=1, FAMILY=memory, REPORT=file.json
	@$(BIN)/python -m tests.hostile --seed $(SEED) $(if $(MINUTES),--minutes $(MINUTES)) \
	  $(addprefix --family ,$(FAMILY)) $(if $(REPORT),--json $(REPORT))

fuzz: $(READY)  ## fuzz REST and SQL for longer than the suite does: EXAMPLES=1000 FUZZ_SEED=1
	@FUZZ_EXAMPLES=$(EXAMPLES) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest tests/fuzz

serve: $(READY)  ## serve the database in DATA on 127.0.0.1:8780, and to clients of PostgreSQL at POSTGRESQL_PORT=5432
	@$(BIN)/hornbeam serve --data $(DATA) $(addprefix --postgresql-port ,$(POSTGRESQL_PORT))

cluster: $(READY)  ## HBase, HDFS and ZooKeeper on this machine: REGION_SERVERS=, DATA_NODES=, HBASE=2.5.8 HADOOP=3.3.6
	@$(BIN)/hornbeam cluster up --dir $(CLUSTER) $(addprefix --region-servers ,$(REGION_SERVERS)) \
	  $(addprefix --data-nodes ,$(DATA_NODES)) $(addprefix --hbase ,$(HBASE)) $(addprefix --hadoop ,$(HADOOP))

cluster-down: $(READY)  ## stop it; data stay
	@$(BIN)/hornbeam cluster down --dir $(CLUSTER)

bench: $(PEERS)  ## measure, and write bench/reports/latest.json; next to PostgreSQL if installed
	@$(BIN)/python -m bench.micro

bench-groups: $(PEERS)  ## what a total costs writers of one hot group, and saves readers; PostgreSQL if installed: QUICK=1
	@$(BIN)/python -m bench.groups $(if $(QUICK),--writes 320 --rounds 1)

bench-groups-nodes: $(READY)  ## the same on a real HBase, with one node and three (needs Java, Maven): QUICK=1
	@$(BIN)/python -m bench.groups.nodes $(if $(QUICK),--writes 200 --rounds 1)

bench-dashboard: $(SPARK)  ## CloudTPS's Dashboard: immediate and deferred views under load (needs Java): QUICK=1, NODES=3 on a real HBase
	@$(BIN)/python -m bench.dashboard $(if $(QUICK),--sizes 50 --intervals 500) $(addprefix --nodes ,$(NODES))

bench-totals: $(READY)  ## TPC-W with totals of carts and orders as immediate views: QUICK=1, NODES=3 on a real HBase (needs Java, Maven)
	@$(BIN)/python -m bench.tpcw.totals $(if $(QUICK),--seconds 3 --rounds 1) $(addprefix --nodes ,$(NODES))

bench-evaluation: bench-groups bench-groups-nodes bench-dashboard bench-totals  ## these four, and bench/reports/evaluation.html
	@$(BIN)/python -m bench.evaluation

bench-subscribers: $(READY)  ## what 10 000 subscribers of a view cost a node, while nothing changes and when a row does: QUICK=1
	@$(BIN)/python -m bench.subscribers $(if $(QUICK),--subscribers 500 --seconds 10 --heartbeat-s 2 --changes 3)

bench-live: $(SPARK)  ## live views: rows a second by kind, groups and skew; lag by rate of changes; cost to writers: QUICK=1
	@$(BIN)/python -m bench.live_views $(if $(QUICK),--facts=5000 --changes=2000 --rounds=1 --rates=100 --seconds=2 --scale=0.001)

bench-live-nodes: $(READY)  ## live views kept by 1, 2 and 4 nodes on a real HBase, and while regions split
	@$(BIN)/python -m bench.live_views.nodes

bench-cluster: bench-nodes bench-peers  ## all that is measured on a real HBase, about an hour

bench-nodes: $(READY)  ## on a real HBase with several nodes, failing and moving too (needs Java, Maven)
	@$(BIN)/python -m bench.cluster

bench-gateways: $(READY)  ## the store over Thrift 1 next to Thrift 2, on a real HBase (needs Java, Maven)
	@$(BIN)/python -m bench.gateways

bench-spark: $(SPARK)  ## Spark's work on an embedded store: SCALE=0.05
	@$(BIN)/python -m bench.spark $(addprefix --scale ,$(SCALE))

bench-nations: $(SPARK)  ## TPC-H's revenue by nation with and without a partial aggregate: SCALE=0.05
	@$(BIN)/python -m bench.tpch.nations $(addprefix --scale ,$(SCALE))

bench-spark-cluster: $(SPARK)  ## Spark's scans and builds on a real HBase (needs Java, Maven)
	@$(BIN)/python -m bench.spark_cluster

bench-peers: $(PEERS)  ## TPC-W on Hornbeam, Phoenix, Omid, the paper's protocol, PostgreSQL (needs all of them): QUICK=1, CUSTOMERS=50000
	@$(BIN)/python -m bench.peers.run $(if $(QUICK),--quick) $(if $(CUSTOMERS),--customers $(CUSTOMERS) \
	  --joins --locks --skews --nodes --clients --without Paper "PostgreSQL, materialised views" --region-heap-mb 6144 \
	  --output bench/reports/peers-$(CUSTOMERS).json)

lock:  ## resolve the dependencies again
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --group dev --extra arrow --extra otel --extra sqlalchemy \
	  --no-emit-package hornbeam pyproject.toml client/pyproject.toml -o requirements.lock
	grep -oE '(pyspark|tpchgen-cli)[><=][^"]*' pyproject.toml | $(BIN)/uv pip compile --quiet --universal --generate-hashes \
	  --python-version 3.11 - -o requirements-spark.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --group bench \
	  --constraint requirements.lock -o requirements-bench.lock

clean:
	rm -rf .venv .venv-* var .mypy_cache .ruff_cache .pytest_cache .hypothesis
