# Ranklings. `make` alone lists what there is.
#
# make turns every failure of a recipe into its own exit code 2. A script that must tell "something failed" (1) from
# "the command was wrong" (2) and "the grader's own fault" (3) calls `.venv/bin/python -m grader …` itself.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
PIP_FLAGS := --quiet --no-input --disable-pip-version-check
GRADER = $(PY) -m grader

.DEFAULT_GOAL := help
.PHONY: help init run new sandbox browser grade watch render gradebook batch batch-report similarity bundle list show hint explain progress quiz interview mend mends reset verify doctor test lint types bench bench-batch lock clean distclean
.DELETE_ON_ERROR:

# What people write goes to the shell by the environment, as it was written: neither make nor the shell looks for quotes,
# $ or backticks in it. ARGS is words of a command line, as the shell reads them.
override EX := $(value EX)
override SUBMISSION := $(value SUBMISSION)
override SEED := $(value SEED)
override REPORT := $(value REPORT)
override RANKS := $(value RANKS)
override BANK := $(value BANK)
override MINUTES := $(value MINUTES)
override LEVELS := $(value LEVELS)
override NAME := $(value NAME)
override COURSE := $(value COURSE)
export EX SUBMISSION SEED REPORT RANKS BANK MINUTES LEVELS NAME COURSE
SUBMITTED = $${SUBMISSION:+--submission "$$SUBMISSION"}
SEEDED = $${SEED:+--seed "$$SEED"}
TIMED = $${MINUTES:+--minutes "$$MINUTES"}

## -- For students
## grade      grade exercise EX: make grade EX=03 [SUBMISSION=file or folder] [SEED=7]
##            without EX: all exercises that you have begun
grade: $(READY)
	@$(GRADER) grade $$EX $(SUBMITTED) $(SEEDED) $(ARGS)

## render     other formats of a report: make render REPORT=report.json ARGS="--html report.html"
render: $(READY)
	@$(GRADER) render $${REPORT:+"$$REPORT"} $(ARGS)

## list       all exercises with points and time, and which you have begun
list: $(READY)
	@$(GRADER) list $(ARGS)

## show       the statement of exercise EX
show: $(READY)
	@$(GRADER) show $$EX $(ARGS)

## watch      grade exercise EX at every save, and see the verdicts as they come; ARGS=--plain for screen readers
watch: $(READY)
	@$(GRADER) watch $$EX $(SEEDED) $(ARGS)

## run        run your file of exercise EX on ranks, to play with it: make run EX=03 [RANKS=2]; calls its main(rank, world_size)
run: $(READY)
	@$(GRADER) run $$EX $${RANKS:+--ranks "$$RANKS"} $(SUBMITTED) $(ARGS)

## hint       a hint for the check of exercise EX that fails now; each call says more: make hint EX=03 [ARGS="--level 2"]
hint: $(READY)
	@$(GRADER) hint $$EX $(ARGS)

## explain    why the checks of exercise EX that fail now matter in production
explain: $(READY)
	@$(GRADER) explain $$EX $(ARGS)

## progress   the course as a map: what is done, what comes next
progress: $(READY)
	@$(GRADER) progress $(ARGS)

## quiz       questions of all topics, spaced so that they stay: make quiz [BANK=overlap]; ARGS=--list names the banks
quiz: $(READY)
	@$(GRADER) quiz $${BANK:+"$$BANK"} $(ARGS)

## interview  an exercise and questions against the clock, with a debrief: make interview [MINUTES=55] [LEVELS=1] [EX=08]
interview: $(READY)
	@$(GRADER) interview $(TIMED) $(if $(filter-out 0,$(LEVELS)),--levels) $${EX:+--exercise "$$EX"} $(ARGS)

## mend       a program with one mistake and the page that it got, to be mended: make mend [EX=03] [MINUTES=12]
mend: $(READY)
	@$(GRADER) mend $$EX $(TIMED) $(ARGS)

## reset      put the stub of exercise EX back; your file is kept beside it
reset: $(READY)
	@$(GRADER) reset $$EX $(ARGS)

## doctor     what this machine has and what that means for grading
doctor: $(READY)
	@$(GRADER) doctor $(ARGS)

## sandbox    install bubblewrap, which keeps students' code in (Debian and Ubuntu; asks for root where it must)
sandbox:
	@command -v bwrap >/dev/null || { test "$$(id -u)" = 0 && root= || root=sudo; \
	  $$root apt-get update -qq && $$root apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null; } \
	  || { $(say) "bubblewrap could not be installed by apt; the lines above say why. Other systems: install the package bubblewrap." >&2; exit 3; }
	@$(say) "$$(bwrap --version) is installed; make doctor says whether it works here."

## -- For authors
## new        begin an exercise: make new NAME=22_all_reduce
new: $(READY)
	@$(GRADER) new $${NAME:+"$$NAME"} $(ARGS)

## verify     prove the exercises themselves: stubs, solutions, variants, mutants; [EX=03]
verify: $(TOOLS)
	@$(GRADER) verify $$EX $(SEEDED) $(ARGS)

## mends      pack mutants of exercise EX with the pages that they get, for make mend: make mends EX=03 [ARGS=--check]
mends: $(READY)
	@$(GRADER) mends $$EX $(ARGS)

## bundle     what students and platforms get: make bundle ARGS="student DIR" (gradescope, github: docs/courses.md)
bundle: $(READY)
	@$(GRADER) bundle $(ARGS)

## init       a student's copy in a folder of its own, as bundle student makes it: make init COURSE=DIR
init: $(READY)
	@$(GRADER) init $${COURSE:+"$$COURSE"} $(ARGS)

## gradebook  marks for Canvas, Moodle or a plain table: make gradebook ARGS="a.json b.json --out marks.csv"
gradebook: $(READY)
	@$(GRADER) gradebook $(ARGS)

## batch      a folder of hand-ins: make batch ARGS="hand_ins --assignment assignment.yaml --out graded" (docs/courses.md)
batch: $(READY)
	@$(GRADER) batch $(ARGS)

## batch-report   what the class got right and wrong: make batch-report ARGS="graded --html class.html"
batch-report: $(READY)
	@$(GRADER) batch report $(ARGS)

## similarity   hand-ins of a batch that resemble one another: make similarity ARGS="graded --names" (docs/courses.md)
similarity: $(READY)
	@$(GRADER) similarity $(ARGS)

## browser    install Chromium, in which tests look at the HTML page (Debian; asks for root where it must)
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && root= || root=sudo; \
	  $$root apt-get update -qq && $$root apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || { $(say) "Chromium could not be installed by apt; the lines above say why. Without it tests of the page are skipped." >&2; exit 3; }

## test       lint and tests (types among them), three files at a time; ARGS goes to pytest, ARGS=--whole runs what is only drawn as well
test: $(TOOLS) lint  # compiled files are kept, whatever the shell says: each process would compile them anew
	@env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest -n 3 --dist loadfile $(ARGS)

## lint       ruff: rules and formatting of imports
lint: $(TOOLS)
	@$(PY) -m ruff check --quiet .

## types      mypy, strict, for the grader
types: $(TOOLS)
	@$(PY) -m mypy --no-error-summary

## bench      time and memory as ratios, and the time from a save to its verdicts
bench: $(READY)
	@$(PY) -m grader.authoring.bench $(ARGS)
	@$(PY) -m grader.authoring.watch_bench

## bench-batch  what a batch costs over the students' own runs, as ratios; a slot's memory; ARGS="--size 200"
bench-batch: $(READY)
	@$(PY) -m grader.batch.bench $(ARGS)

# What tests need beside what grading needs, in the same environment.
$(TOOLS): $(READY) requirements-dev.lock
	@$(say) "Adding to $(VENV) what the project's own tests need. This happens once." >&2
	@$(PY) -m pip install $(PIP_FLAGS) --constraint requirements.lock --requirement requirements-dev.lock >&2 \
	  || { $(say) "pip could not install requirements-dev.lock; the lines above say why. Mend that and call make again." >&2; exit 3; }
	@touch $(TOOLS)

## -- The environment
## lock       write requirements.lock and requirements-dev.lock anew from the ranges of pyproject.toml
lock:
	$(call need_python)
	@$(PYTHON) -m venv --clear .venv-lock
	@.venv-lock/bin/python -m pip install $(PIP_FLAGS) --editable . 'flit_core>=3.11,<5'
	@{ printf '%s\n%s\n' "$(LOCK_LINE_1)" "$(LOCK_LINE_2)"; $(LOCKED); } > requirements.lock.partial
	@.venv-lock/bin/python -m pip install $(PIP_FLAGS) --editable '.[dev]'
	@{ printf '%s\n' "$(LOCK_LINE_DEV)"; $(LOCKED) | grep -vxFf requirements.lock.partial; } > requirements-dev.lock.partial
	@mv requirements.lock.partial requirements.lock
	@mv requirements-dev.lock.partial requirements-dev.lock
	@rm -rf .venv-lock

LOCKED = .venv-lock/bin/python -m pip list --format=freeze --exclude pip --exclude ranklings \
  | sed -e 's/+.*//' -e '/^nvidia-/d' -e '/^cuda-/d' -e '/^triton=/d'
LOCK_LINE_1 := \# What grading and practice were last proven with, for pip. Written by make lock from the ranges of pyproject.toml;
LOCK_LINE_2 := \# what torch needs for one platform only (CUDA, Triton) is left to pip.
LOCK_LINE_DEV := \# What the project's own tests need beside requirements.lock, for pip. Written by make lock as well.

## clean      remove caches
clean:
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .venv-lock
	@find . -name .venv -prune -o -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

## distclean  remove caches and the environment
distclean: clean
	@rm -rf $(VENV)

help:
	$(call find_python)
	@$(PYTHON) -c 'import textwrap; \
	  fill = textwrap.TextWrapper(78, initial_indent="  ", subsequent_indent=" " * 13, break_on_hyphens=False).fill; \
	  told = [line.rstrip() for line in open("Makefile", encoding="utf-8") if line.startswith("## ")]; \
	  print(*("\n" + line[6:] if line.startswith("## -- ") else fill(line[3:]) for line in told), sep="\n")'

# The stamp is written last and removed first, so that a broken environment is never taken for a ready one.
$(READY): requirements.lock pyproject.toml
	@rm -f $(READY)
	$(call need_python)
	@$(PY) -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV) \
	  || { $(say) "$(VENV) could not be created; the lines above say why." >&2; exit 3; }
	@$(say) "Preparing $(VENV). This happens once and downloads PyTorch, which can take some minutes." >&2
	@$(PY) -m pip install $(PIP_FLAGS) --requirement requirements.lock >&2 \
	  || { $(say) "pip could not install requirements.lock; the lines above say why. Mend that and call make again." >&2; exit 3; }
	@$(PY) -m pip install $(PIP_FLAGS) --no-build-isolation --no-deps --editable . >&2 \
	  || { $(say) "pip could not install the grader itself; the lines above say why." >&2; exit 3; }
	@touch $(READY)

say = printf 'grader: %s\n'

define find_python
@$(PYTHON) -c '' 2>/dev/null \
  || { $(say) "$(PYTHON) was not found. Install Python 3.11 or newer, or name it: make PYTHON=python3.12 …" >&2; exit 3; }
endef

define need_python
$(call find_python)
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || { $(say) "$(PYTHON) is $$($(PYTHON) -V 2>&1); Python 3.11 or newer is needed. Name one: make PYTHON=python3.12 …" >&2; exit 3; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
  || { $(say) "$(PYTHON) has no venv module (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 3; }
endef
