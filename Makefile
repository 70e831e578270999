# Every target does its own set-up: a virtual environment in .venv with exactly what requirements.lock says.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test serve check bench lock clean

$(READY): requirements.lock pyproject.toml client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hornbeam needs Python 3.11 or newer; say which with make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep -o '^uv==[^ ]*' requirements.lock)
	@VIRTUAL_ENV=.venv $(BIN)/uv pip sync --quiet requirements.lock
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps -e client -e .
	@touch $@

lock:
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --group dev --all-extras \
	  --no-emit-package hornbeam pyproject.toml client/pyproject.toml -o requirements.lock
