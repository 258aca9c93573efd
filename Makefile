# Three commands matter: `make demo`, `make serve` and `make test`. All set up .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Threads that spin while they wait make small tensor operations ten times slower on a machine that is shared.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo serve test lint fuzz docs texture clean
.DELETE_ON_ERROR:

demo: $(STAMP)
	$(BIN)/python examples/demo.py --out out/demo

# The page on generated pictures, in out/serve; what is drawn stays there.
serve: $(STAMP)
	$(BIN)/python examples/page.py --out out/serve
	$(BIN)/shapetailor serve out/serve

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check src tests examples studies
	$(BIN)/ruff format --check src tests examples studies
	$(BIN)/mypy

# Thousands of spoilt files for every reader, and programs killed at random moments. COUNT and KILLS are for shorter tries.
COUNT ?= 10000
KILLS ?= 8
fuzz: $(STAMP)
	$(BIN)/python tests/fuzz/run.py --count $(COUNT)
	$(BIN)/python tests/fuzz/kill.py --kills $(KILLS)

# The documents as a site, in site/index.html. Its packages are installed only when it is asked for.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --site-dir site
	@echo site/index.html

$(VENV)/.docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# The shipped model from its data (docs/models.md): make texture RWTSD=DIR MULTI_REGION=DIR BRODATZ=DIR TEXTURES=DIR
# Stopped, the same command goes on where it was. FIRST and SECOND are for shorter tries.
FIRST  ?= --steps 4000 --batch 24 --samples 7000 --validate-every 400
SECOND ?= --steps 1200 --samples 1200
MADE   := out/texture
FOLDERS = --data $(RWTSD) $(MULTI_REGION) $(MADE)/brodatz $(MADE)/textures --most 1000 --seed 0
# Mosaics of the textures to train on; those of other classes are for tests.
MOSAICS = test -d $(MADE)/$(1) || { rm -rf $(MADE)/part && $(BIN)/shapetailor data mosaics --textures "$(2)" --part train \
	--count $(3) --regions $(4) --out $(MADE)/part && mv $(MADE)/part $(MADE)/$(1); }

texture: $(STAMP)
	@test -d "$(RWTSD)" -a -d "$(MULTI_REGION)" -a -d "$(BRODATZ)" -a -d "$(TEXTURES)" || \
	{ echo "make texture needs folders: RWTSD=DIR MULTI_REGION=DIR BRODATZ=DIR TEXTURES=DIR" >&2; exit 2; }
	$(call MOSAICS,brodatz,$(BRODATZ),300,2-5)
	$(call MOSAICS,textures,$(TEXTURES),600,2-8)
	$(BIN)/shapetailor train $(FOLDERS) $(FIRST) --resume --out $(MADE)/first.safetensors
	$(BIN)/shapetailor sharpen $(MADE)/first.safetensors $(FOLDERS) $(SECOND) --resume --out $(MADE)/texture.safetensors

clean:
	rm -rf $(VENV) out site .mypy_cache .pytest_cache .ruff_cache
