// Formats things - output of streams
//
// Copyright (c) 2012 - present, A. Writer
// All rights reserved.
//
// The license is in format.h.

#include "format.h"
