# `make help` lists the targets. Everything that python needs is installed by pip into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: fuzz help setup setup-system demo test test-integrations faults test-slow lint format reference docs docs-check benchmarks benchmark-reading comparison clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## create .venv and install ampere into it

# constraints.txt bounds torch: without it pip takes several gigabytes of CUDA packages.
$(STAMP): pyproject.toml paper/pyproject.toml constraints.txt src/ampere/__init__.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[torch,prune,figures,dev]' --editable paper
	@touch $(STAMP)

# Only tests need them: an sshd of their own for devices that are reached by ssh, a browser for reports.
SYSTEM := test -x /usr/sbin/sshd && command -v chromium >/dev/null
setup-system:  ## install openssh-server and chromium by apt, for the tests; needs root
	@$(SYSTEM) || (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openssh-server chromium)

demo: setup  ## profile LeNet-5 on this machine, estimate five unseen variants, check by metering
	$(BIN)/python examples/01_lenet5.py

lint: setup  ## ruff, mypy, import contracts, what Python 3.10 has
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vermin --quiet --no-tips --target=3.10- --violations src paper/src
	$(BIN)/vermin --quiet --no-tips --target=3.8- --violations $$($(BIN)/python -m ampere.devices.worker_archive)

# Tests start hundreds of processes: without bytecode each of them compiles ampere anew.
test: export PYTHONDONTWRITEBYTECODE =
test: lint  ## lint, types, import contracts, tests; as root it installs openssh-server and chromium if they are not there
	@($(SYSTEM)) || test "$$(id -u)" != 0 || $(MAKE) setup-system
	$(BIN)/python -m pytest

# timm needs torchvision, which would bring another build of torch: without what it depends on. Such
# a torchvision cannot be imported by itself, as Lightning and transformers' Trainer do: they are apart.
# Keras has two backends, torch and JAX.
INTEGRATIONS := .venv-integrations
LIBRARIES := torch,prune,mnn,fleet,transformers,optuna,tensorboard,mlflow,wandb,opentelemetry
$(INTEGRATIONS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(LIBRARIES),dev]' pyyaml
	$(INTEGRATIONS)/bin/pip install --quiet --disable-pip-version-check --no-deps timm==1.0.30 torchvision==0.28.0
	@touch $@

FRAMEWORKS := .venv-frameworks
$(FRAMEWORKS)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[torch,lightning,huggingface,accelerate,keras,skorch,dev]' jax
	@touch $@

# JAX, flax and optax bring 459 MB: an environment of their own, beside torch and MNN (56 MB), which they are compared with.
JAX := .venv-jax
$(JAX)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(JAX)
	$(JAX)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[torch,jax,mnn,dev]'
	@touch $@

# Flower wants typer<0.21 and rich<15; 1.42 does not install everywhere. That typer's own imports warn.
FLOWER := .venv-flower
$(FLOWER)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[torch,prune,flower,dev]' 'flwr<1.42' 'click<8.5'
	@touch $@

test-integrations: $(INTEGRATIONS)/.installed $(FRAMEWORKS)/.installed $(JAX)/.installed $(FLOWER)/.installed  ## tests with MNN, JAX, optuna, dask, timm, transformers, trackers, training frameworks and Flower, in environments of their own
	$(INTEGRATIONS)/bin/python -m pytest tests/integrations tests/mnn
	$(FRAMEWORKS)/bin/python -m pytest tests/integrations --ignore tests/integrations/test_transformers.py
	$(JAX)/bin/python -m pytest tests/jax
	$(FLOWER)/bin/python -m pytest -n 0 -W "ignore:'click:DeprecationWarning" tests/integrations/test_flower.py tests/integrations/test_flower_page.py tests/integrations/test_federation.py

FUZZ_SECONDS ?= 3600
fuzz: setup  ## feed every reader with damaged and hostile input for an hour (FUZZ_SECONDS); what breaks is kept in tests/security/corpus
	cd tests && ../$(BIN)/python -m security.fuzzing.fuzz --seconds $(FUZZ_SECONDS)

test-slow: setup  ## tests that take long and repeat what others show
	$(BIN)/python -m pytest -m slow

faults: setup  ## kill 200 commands and workers, fill the disk at every size; takes twenty minutes
	AMPERE_KILLS=200 $(BIN)/python -m pytest tests/security/test_faults.py -m 'slow or not slow' --timeout 7200

format: setup  ## let ruff format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reference: setup  ## write docs/reference anew from the code
	$(BIN)/python website/reference.py

# The site needs no ampere: its pages are Markdown, the reference too.
DOCS := .venv-docs
$(DOCS)/.installed: website/requirements.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --requirement website/requirements.txt
	@touch $@

docs: $(DOCS)/.installed  ## build the site of the docs into build/site; a broken link is an error
	$(DOCS)/bin/python -m sphinx --fail-on-warning --quiet -c website -d build/doctrees docs build/site
	@echo "open build/site/index.html"

docs-check: setup docs  ## follow every tutorial as it stands, run the snippets of all pages, check the spelling; half an hour, leave the machine alone
	$(DOCS)/bin/codespell --ignore-words website/words.txt README.md CHANGELOG.md CODE_OF_CONDUCT.md SECURITY.md docs/*.md docs/tutorials docs/reference docs/paper/*.md paper/README.md
	$(BIN)/python -m pytest -n 0 -m 'slow or not slow' tests/system/test_tutorials.py tests/system/test_snippets.py tests/system/test_shown_commands.py tests/system/test_shown_output.py tests/system/test_reference.py tests/system/test_docs.py tests/system/test_site.py

benchmarks: setup $(INTEGRATIONS)/.installed $(JAX)/.installed  ## the tables in docs/paper, with RECORDED=DIR; takes nine hours, leave the machine alone
	@test -d "$(RECORDED)" || (echo "say where published energies are: make benchmarks RECORDED=DIR"; exit 1)
	$(MAKE) test-slow
	$(BIN)/ampere reproduce -o build/paper --recorded $(RECORDED)
	$(BIN)/python benchmarks/paper.py build/paper
	$(BIN)/python benchmarks/published.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/fidelity.py
	$(BIN)/python benchmarks/own_models.py --again --method paper
	$(BIN)/python benchmarks/own_models.py --again
	$(BIN)/python benchmarks/additive.py --again
	$(BIN)/python benchmarks/single_layers.py
	$(BIN)/python benchmarks/extrapolation.py --again
	$(BIN)/python benchmarks/two_threads.py --again
	$(BIN)/python benchmarks/measuring.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/simulated.py
	$(BIN)/python benchmarks/pruning.py --again
	$(BIN)/python benchmarks/pruning.py --again --cuts
	$(BIN)/python benchmarks/cutting.py
	$(BIN)/python benchmarks/coupling.py
	$(BIN)/python benchmarks/processes.py
	$(BIN)/python benchmarks/coordinates.py
	$(BIN)/python benchmarks/recorded.py --data $(RECORDED)
	$(BIN)/python benchmarks/recorded.py --data $(RECORDED) --ablation
	$(BIN)/python benchmarks/board.py --data $(RECORDED)
	$(BIN)/python benchmarks/transfer.py --data $(RECORDED)
	$(BIN)/python benchmarks/bias.py
	$(BIN)/python benchmarks/calibration.py
	$(BIN)/python benchmarks/cliffs.py
	$(BIN)/python benchmarks/gating.py
	$(MAKE) $(FLOWER)/.installed && $(FLOWER)/bin/python benchmarks/federated.py
	$(BIN)/python benchmarks/fleet.py --data $(RECORDED)
	$(INTEGRATIONS)/bin/python benchmarks/fleet_running.py
	$(JAX)/bin/python benchmarks/frameworks.py --runtime mnn
	$(JAX)/bin/python benchmarks/frameworks.py --runtime jax
	$(JAX)/bin/python benchmarks/frameworks.py --runtime jax nnx_residual nnx_transformer nnx_recurrent
	$(INTEGRATIONS)/bin/python benchmarks/any_model.py --threads 1
	$(INTEGRATIONS)/bin/python benchmarks/any_model.py --threads 2
	$(BIN)/python benchmarks/sharing.py
	$(INTEGRATIONS)/bin/python benchmarks/search_budget.py

# timm needs torchvision, whose own build of torch we do not want: an environment of its own.
benchmark-reading:  ## read every architecture of timm; takes half an hour
	$(PYTHON) -m venv .venv-timm
	.venv-timm/bin/pip install --quiet --constraint constraints.txt --editable '.[torch]'
	.venv-timm/bin/pip install --quiet --no-deps timm==1.0.30 torchvision==0.28.0
	.venv-timm/bin/pip install --quiet huggingface_hub safetensors pyyaml pillow
	.venv-timm/bin/python benchmarks/reading.py

# Other trackers want other versions of what they share: an environment of their own.
COMPARISON := .venv-comparison
$(COMPARISON)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(COMPARISON)
	$(COMPARISON)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[torch]' 'codecarbon>=3,<4' 'carbontracker>=2.4,<3'
	@touch $@

comparison: $(COMPARISON)/.installed  ## the same job under CodeCarbon, carbontracker and ampere, for docs/comparison.md; ten minutes, leave the machine alone
	$(COMPARISON)/bin/python benchmarks/comparison.py

clean:  ## remove .venv and caches
	rm -rf $(VENV) .venv-timm $(COMPARISON) $(INTEGRATIONS) $(FRAMEWORKS) $(JAX) $(FLOWER) $(DOCS) build/site build/doctrees .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
