// Formats things - output of streams
//
// Copyright (c) 2012 - 2016, A. Writer
// All rights reserved.
//
// The license is in format.h.

#include "format.h"
